"""The running daemon on a subnet that has accidents: LIDs, names, deaths, cuts, cleared counters.

The subnet is served in real time from a healthy simulated fabric, so there is nothing to find but
the accidents themselves.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.daemon import RunningDaemon, running

from fabricmon.model.readings import ReadingBatch
from fabricmon.model.topology import Topology
from fabricmon.simulate import load
from fabricmon.simulate.agents.ibsim import IbsimAgent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]

STEP_S = 0.05
TELEMETRY = {"counter-reset", "telemetry-stale", "counter-broken"}
CONFIG = """\
interval: 1s
fabrics: [{{name: ib, technology: infiniband}}]
collectors:
  infiniband: {{read: native, timeout: 200ms, environment: {environment}}}
targets: [{{collector: infiniband, name: subnet, address: any}}]
"""


def pace(first: ReadingBatch, last: ReadingBatch) -> NDArray[np.float64]:
    """What is counted in a second, [column, port]."""
    return (last.values - first.values) / ((last.time_ns - first.time_ns) / 1e9)


class Subnet:
    """A subnet that counts as time goes by, at the pace of a healthy fabric, in its own thread."""

    def __init__(self) -> None:
        """Nothing is served yet."""
        stream = load("healthy-ib", poll=1.0, duration=60.0).items()
        shape = next(item for item in stream if isinstance(item, Topology))
        batches = [item for item in stream if isinstance(item, ReadingBatch)]
        first = {batch.target: batch for batch in reversed(batches)}
        self._last = {batch.target: batch for batch in batches}
        self._pace = {name: pace(first[name], last) for name, last in self._last.items()}
        self.agent = IbsimAgent(shape)
        self._since = time.monotonic() - 600.0
        self._due: queue.Queue[Callable[[Subnet], None] | None] = queue.Queue()
        self._done = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Self:
        """Serve."""
        self.agent.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving."""
        self._due.put(None)
        self._thread.join(30)
        self.agent.stop()

    def befall(self, accident: Callable[[Subnet], None]) -> None:
        """Something happens to it, between two steps of its counters."""
        self._due.put(accident)
        assert self._done.acquire(timeout=30)

    def _live(self) -> None:
        while True:
            age = time.monotonic() - self._since
            self.agent.update(
                replace(last, values=(self._pace[name] * age).astype(np.uint64))
                for name, last in self._last.items()
            )
            try:
                accident = self._due.get(timeout=STEP_S)
            except queue.Empty:
                continue
            if accident is None:
                return
            accident(self)
            self._done.release()

    def clear(self) -> None:
        """Somebody resets every counter, and they count on from zero."""
        self._since = time.monotonic()
        self.agent.clear_counters()

    def guid(self, name: str) -> int:
        """The node of that name."""
        nodes = self.agent.fabric.nodes.items()
        return next(guid for guid, node in nodes if node.description == name)


class Watched:
    """What the daemon's pages say of the subnet."""

    def __init__(self, daemon: RunningDaemon) -> None:
        """Of this daemon."""
        self.daemon = daemon

    def two_polls_later(self) -> None:
        """The poll that is on its way may have been too early; two more may not."""
        self.daemon.wait_ticks(3)

    def coverage(self) -> dict[str, int]:
        """Ports by when they were read."""
        samples = self.daemon.samples("fabricmon_fabric_ports")
        return {dict(key)["state"]: int(count) for key, count in samples.items()}

    def states(self) -> dict[tuple[str, str], bool]:
        """Every port whose link state is told, and whether it is up."""
        query = "/metrics?collect[]=fabricmon_port_up"
        families = text_string_to_metric_families(self.daemon.get(query))
        return {
            (sample.labels["device"], sample.labels["port"]): sample.value == 1
            for family in families
            for sample in family.samples
        }


Accident = tuple[str, "Callable[[Subnet], None]", int, set[tuple[str, str]]]
"""What happens, how, ports that are unread then, and ends of links that are down."""


def accidents(subnet: Subnet) -> tuple[Accident, ...]:
    """One after the other. An adapter has one port here and a spine four."""
    host, spine, leaf = (subnet.guid(name) for name in ("host31 mlx5_0", "spine2", "leaf1"))
    cut = {("leaf1", "12"), ("spine3", "2")}
    return (
        ("another subnet manager", lambda s: s.agent.restart_manager(500), 0, set()),
        ("another name", lambda s: s.agent.rename(host, "somebody else"), 0, set()),
        ("cleared", lambda s: s.clear(), 0, set()),
        ("a host dies", lambda s: s.agent.silence(host), 1, set()),
        ("and returns", lambda s: s.agent.silence(), 0, set()),
        ("a spine dies", lambda s: s.agent.silence(spine), 4, set()),
        ("and returns", lambda s: s.agent.silence(), 0, set()),
        ("a cable is pulled", lambda s: s.agent.cut(leaf, 12), 0, cut),
        ("and put back", lambda s: s.agent.mend(leaf, 12), 0, set()),
    )


def test_accidents_of_a_subnet_leave_a_running_daemon_in_the_truth(tmp_path: Path) -> None:
    """Two polls after each accident: the same ports, the right coverage, no false incident."""
    with Subnet() as subnet:
        story = accidents(subnet)
        config = CONFIG.format(environment=json.dumps(subnet.agent.environment))
        with running(tmp_path, config) as daemon:
            seen = Watched(daemon)
            daemon.wait(seen.states)
            seen.two_polls_later()
            ports = seen.states().keys()
            for what, happens, unread, down in story:
                subnet.befall(happens)
                seen.two_polls_later()
                told, states = seen.coverage(), seen.states()
                assert told["fresh"] == len(ports) - unread, (what, told)
                assert told["held"] + told["silent"] == unread, (what, told)
                assert states.keys() <= ports, what
                assert {end for end, up in states.items() if not up} == down, what
            found = daemon.json("/api/v1/incidents")
            assert daemon.stop()[0] == 0
    kinds = [incident["kind"] for incident in found]
    assert kinds.count("counter-reset") == 1
    real = [incident for incident in found if incident["kind"] not in TELEMETRY]
    ends = {end for *_, down in story for end in down}
    for incident in real:
        assert incident["kind"] == "degraded-link"
        assert (incident["cause"]["device"], incident["cause"]["port"]) in ends
