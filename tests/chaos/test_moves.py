"""A device moves under a running daemon: another address behind its name, another secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import require_library
from support.daemon import running
from support.recorded import frames, recorded
from support.snmpd import COMMUNITY, free_udp_port, moving_octets, snmpd

from fabricmon.model.ports import PortTable

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import RunningDaemon

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]

RATE = 1e6
"""Bytes a second on every interface, by the wall clock, whichever address it is asked at."""
NAME = "box.fabric.example"
OTHER = "127.0.0.2"


def _up(daemon: RunningDaemon) -> set[float]:
    return set(daemon.samples("fabricmon_target_up", target="box").values())


def _rates(recordings: Path) -> list[float]:
    """Every rate of every tick, as the daemon had it."""
    ticks = [frame.rate_of("rx_bytes") for frame in frames(recorded(recordings), PortTable())]
    return [rate for rates in ticks for rate in rates[np.isfinite(rates)].tolist()]


def test_a_name_leads_elsewhere_and_the_secret_is_renewed(tmp_path: Path) -> None:
    """The device goes on at another address with another community: no restart, no wrong rate."""
    library = require_library("libnss_wrapper.so", "libnss-wrapper")
    hosts, secret, agent = tmp_path / "hosts", tmp_path / "community", tmp_path / "agent"
    agent.mkdir()
    hosts.write_text(f"127.0.0.1 {NAME}\n")
    secret.write_text(COMMUNITY)
    port, moving = free_udp_port(), moving_octets(agent)
    config = (
        f"interval: 1s\nrecord: {{directory: {tmp_path / 'recordings'}}}\n"
        f"credentials: {{ro: {{community: {{file: {secret}}}}}}}\n"
        f"targets: [{{collector: snmp, name: box, address: '{NAME}:{port}', credential: ro}}]\n"
    )
    environment = {"LD_PRELOAD": library, "NSS_WRAPPER_HOSTS": str(hosts)}
    with running(tmp_path, config, env=environment) as daemon:
        with snmpd(agent, moving, port=port):
            daemon.wait(lambda: _up(daemon) == {1})
            daemon.wait_ticks(4)
        daemon.wait(lambda: _up(daemon) == {0})
        with snmpd(agent, moving, port=port, host=OTHER, community="another"):
            hosts.write_text(f"{OTHER} {NAME}\n")
            daemon.wait_ticks(2)
            assert _up(daemon) == {0}, "the community is still the old one"
            secret.write_text("another")
            daemon.wait(lambda: _up(daemon) == {1})
            daemon.wait_ticks(4)
            assert daemon.stop()[0] == 0
    rates = _rates(tmp_path / "recordings")
    assert len(rates) >= 6
    assert rates == pytest.approx([RATE] * len(rates), rel=0.05)
