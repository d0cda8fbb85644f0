"""`fabricmon mappings --unmatched`: what no mapping knows, in files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from fabricmon.cli.mappings import command

if TYPE_CHECKING:
    from pathlib import Path

T0 = 1_764_460_800_000_000_000


def events(leaf: str, count: int) -> str:
    """Events of one leaf of some ports."""
    return "".join(
        json.dumps(
            {
                "name": "s",
                "timestamp": T0 + n,
                "tags": {"interface_name": f"Ethernet{n}", "source": "leaf1:6030"},
                "values": {f"/interfaces/interface/state/{leaf}": n},
            }
        )
        + "\n"
        for n in range(count)
    )


def test_unknown_paths_of_a_folder_most_frequent_first(tmp_path: Path) -> None:
    """Every file counts, also one of which nothing is known; known paths are not listed."""
    (tmp_path / "a.json").write_text(events("counters/in-octets", 3) + events("brand-new", 2))
    (tmp_path / "b.json").write_text(events("never-seen", 5))
    done = CliRunner().invoke(command, ["--unmatched", str(tmp_path)])
    assert (done.exit_code, done.output.splitlines()) == (
        0,
        [
            "       5  /interfaces/interface/state/never-seen",
            "       2  /interfaces/interface/state/brand-new",
        ],
    )
    done = CliRunner().invoke(command, ["--unmatched", str(tmp_path / "a.json"), "-o", "json"])
    assert json.loads(done.output) == {"/interfaces/interface/state/brand-new": 2}


def test_a_mapping_of_ones_own_makes_a_path_known(tmp_path: Path) -> None:
    """`--dir` counts for `--unmatched` as well; a file that is not there is a usage error."""
    file, own = tmp_path / "a.json", tmp_path / "mine"
    file.write_text(events("brand-new", 2))
    own.mkdir()
    (own / "house.yaml").write_text(
        "name: house\ntitle: ours\nrows:\n"
        "  - {path: '/interfaces/interface[name={port}]/state/brand-new', counter: rx_discards}\n"
    )
    done = CliRunner().invoke(command, ["--dir", str(own), "--unmatched", str(file)])
    assert (done.exit_code, done.output) == (0, "Every path is known.\n")
    done = CliRunner().invoke(command, ["--unmatched", str(tmp_path / "none.json")])
    assert done.exit_code == 2
    assert "does not exist" in done.output
