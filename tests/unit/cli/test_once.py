"""`once` prints one reading of everything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from fabricmon.cli.once import command

if TYPE_CHECKING:
    from pathlib import Path

T0 = 1_764_460_800_000_000_000


def test_the_newest_of_a_files_history(tmp_path: Path) -> None:
    """A file with a history gives the last value of each series, not all of them."""
    lines = []
    for n in range(5):
        values = {"/interfaces/interface/state/counters/in-octets": str(1000 + n)}
        if n == 0:
            values["/interfaces/interface/state/counters/out-octets"] = "7"
        tags = {"source": "leaf1:1", "interface_name": "e1"}
        stamp = T0 + n * 10**10
        lines.append(
            json.dumps([{"name": "s", "timestamp": stamp, "tags": tags, "values": values}])
        )
    (tmp_path / "events.json").write_text("\n".join(lines) + "\n")
    config = tmp_path / "c.yaml"
    config.write_text(
        "fabrics: [{name: f}]\n"
        f"targets: [{{collector: gnmi_file, name: sw, address: {tmp_path}/events.json}}]\n"
    )
    result = CliRunner().invoke(command, ["-c", str(config), "-o", "json"])
    assert result.exit_code == 0, result.output
    rows = {row["counter"]: row["value"] for row in json.loads(result.stdout)}
    assert rows == {"rx_bytes": 1004, "tx_bytes": 7}
    assert len(json.loads(result.stdout)) == 2
