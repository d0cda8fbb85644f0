"""Every plug-in that is installed keeps the promises of its kind (`fabricmon.api`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.windows import Stage, star

from fabricmon import plugins
from fabricmon.api import Credential, Target
from fabricmon.clock import SystemClock
from fabricmon.model.frame import Frame
from fabricmon.settings import Secret
from fabricmon.testing import (
    check_collector,
    check_detector,
    check_exporter,
    check_rule,
)

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context

NOBODY = "127.0.0.1:9"
COLLECTORS: dict[str, tuple[dict[str, Any], str]] = {
    "snmp": ({"timeout": 0.05, "retries": 0}, NOBODY),
    "infiniband": ({}, "{folder}"),
    "gnmi_file": ({}, "{folder}"),
    "gnmi": ({"sync_timeout": 1}, NOBODY),
    "host": ({}, "{folder}"),
    "simulated": ({"warmup": 5.0}, "leaf-spine"),
}
"""Kind: what its config needs, and an address at which nothing or an empty folder is."""
EXPORTERS: dict[str, dict[str, Any]] = {
    "alertmanager": {"urls": ["http://127.0.0.1:9"]},
    "nats": {"servers": ["nats://127.0.0.1:9"]},
    "prometheus": {},
    "jsonl": {"path": "{folder}/incidents.jsonl"},
    "remote_write": {"url": "http://127.0.0.1:9/write", "path": "{folder}/queue"},
}


def filled(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """With the test's folder where it is asked for."""
    return {
        key: value.format(folder=folder) if isinstance(value, str) else value
        for key, value in values.items()
    }


@pytest.mark.parametrize("kind", plugins.kinds(plugins.COLLECTORS))
async def test_a_collector(kind: str, tmp_path: Path, context: Context) -> None:
    """Lifecycle, config, cancellation, and a clear `PollError` where nothing answers."""
    values, address = COLLECTORS[kind]
    plugin = plugins.find(plugins.COLLECTORS, kind)
    secret = tmp_path / "community"
    secret.write_text("anything")
    credential = Credential("ro", {"community": Secret(file=secret)}, {})
    here = Target(
        "fabric",
        "target",
        address.format(folder=tmp_path),
        credential=credential if kind == "snmp" else None,
        options={"insecure": True} if kind == "gnmi" else None,
    )
    await check_collector(lambda: plugin(plugin.Config(**values), [here], context), here)


@pytest.mark.parametrize("kind", plugins.kinds(plugins.EXPORTERS))
async def test_an_exporter(kind: str, tmp_path: Path, context: Context) -> None:
    """Lifecycle and config, also where nobody listens at the other end."""
    plugin = plugins.find(plugins.EXPORTERS, kind)
    config = plugin.Config(**filled(EXPORTERS[kind], tmp_path))
    real = type(context)(SystemClock(), context.report)
    await check_exporter(lambda: plugin(config, real))


@pytest.mark.parametrize("kind", plugins.kinds(plugins.DETECTORS))
def test_a_detector(kind: str, context: Context) -> None:
    """Scores are 0..1 for every port, through cold start and fit, and repeat exactly."""
    plugin = plugins.find(plugins.DETECTORS, kind)
    stage = Stage(lambda inner: plugin(plugin.Config(), inner), star())
    frames: list[Frame] = []
    for _ in range(40):
        stage.healthy(1)
        assert stage.window.frame is not None
        frames.append(stage.window.frame)
    check_detector(lambda: plugin(plugin.Config(), context), frames, stage.table, stage.topology)


@pytest.mark.parametrize("kind", plugins.kinds(plugins.RULES))
def test_a_rule(kind: str) -> None:
    """It is of the kind it is installed as, and explains itself."""
    check_rule(plugins.find(plugins.RULES, kind), kind)
