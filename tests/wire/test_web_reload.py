"""Reload over HTTP, on the real daemon."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from support.daemon import RunningDaemon, running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.wire

_CONFIG = """\
interval: 1s
fabrics: [{name: demo}]
targets: [{collector: simulated, name: simulated, address: healthy}]
exporters: {prometheus: {series_per_port: 3}}
web: {enable_lifecycle: true}
"""


def _reload(daemon: RunningDaemon) -> tuple[int, str]:
    request = urllib.request.Request(daemon.url + "/-/reload", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_reload_changes_the_page_and_a_refused_one_does_not(tmp_path: Path) -> None:
    """A new config shows at the next scrape; a bad one is refused with its place and kept out."""
    file = tmp_path / "fabricmon.yaml"
    score, received = "fabricmon_port_anomaly_score", "fabricmon_port_receive_bytes_total"
    with running(tmp_path, _CONFIG) as daemon:
        daemon.wait(lambda: daemon.samples(received))
        assert not daemon.samples(score)
        file.write_text(_CONFIG.replace("series_per_port: 3", "series_per_port: 10"))
        assert _reload(daemon) == (200, "")
        assert daemon.samples(received)
        daemon.wait(lambda: daemon.samples(score))
        file.write_text(_CONFIG.replace("series_per_port: 3", "series_per_port: many"))
        code, said = _reload(daemon)
        assert code == 500
        assert "fabricmon.yaml:4: exporters.prometheus.series_per_port" in said
        assert daemon.samples(score)
        assert daemon.json("/api/v1/status")["last_reload_successful"] is False
        # The page is made once a tick.
        ok = "fabricmon_config_last_reload_successful"
        daemon.wait(lambda: list(daemon.samples(ok).values()) == [0.0])
        assert "config_rejected" in daemon.log.read_text()
