"""The daemon on a live gNMI device through everything that goes wrong with one.

The device counts along straight lines, so there is one right rate for each counter, however long
or broken the interval is. What the daemon saw is judged from its own recording: every tick of it.

The state is right within an interval: a tick that begins an interval or more after something
happened has it, and so have all later ones. Silence happens when it can be told from lateness.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.certificates import Authority
from support.daemon import RunningDaemon, fabricmon, running
from support.recorded import frames, recorded

from fabricmon.clock import SystemClock
from fabricmon.errors import Reason
from fabricmon.model.counters import BY_ID
from fabricmon.model.ports import PortTable
from fabricmon.model.readings import Column, PortSet, ReadingBatch
from fabricmon.model.stream import Item, PollFailure, Tick
from fabricmon.simulate.agents.gnmi import GnmiAgent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fabricmon.model.frame import Frame

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]

S = 1_000_000_000
PORTS = ("swp1", "swp2")
RATES = {("rx_bytes", -1): 7e8, ("rx_pfc_frames", 3): 40_000.0, ("rx_pfc_ns", 3): 2.5e8}
"""Per second, of the first port; the second counts twice as fast."""
UNKNOWN = "/interfaces/interface[name=swp1]/state/counters/new-in-6.0"
INTERVAL_S = 2
SILENCE_S = 2 * INTERVAL_S
"""Two samples that did not come: the earliest at which one is lost and not late."""
CONFIG = """\
interval: {interval}s
fabrics: [{{name: lab}}]
record: {{directory: {folder}/recordings}}
credentials:
  device: {{ca: {folder}/ca.pem}}
targets:
  - {{collector: gnmi, name: leaf1, address: '{address}', credential: device, mapping: cumulus}}
"""


class Device:
    """A simulated device in a thread of its own, that counts as time goes by."""

    def __init__(self, authority: Authority, name: str) -> None:
        """Serve with a certificate of `authority`."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.agent = GnmiAgent("leaf1")
        self.certify(authority, name)
        self.ports = PORTS
        self.since_ns = SystemClock().now_ns() - 3600 * S
        """When it began to count."""
        self.address = self.do(self._begin())

    def certify(self, authority: Authority, name: str) -> None:
        """Serve with a new certificate from the next start on."""
        certificate, key = authority.issue(name)
        self.agent.tls = (key.read_bytes(), certificate.read_bytes(), None)

    async def _begin(self) -> str:
        self._feeder = asyncio.create_task(self._feed())
        return await self.agent.start()

    async def _feed(self) -> None:
        while True:
            self.agent.update([self.counts(SystemClock().now_ns())])
            await asyncio.sleep(0.25)

    def counts(self, time_ns: int) -> ReadingBatch:
        """What it has counted at some time."""
        seconds = (time_ns - self.since_ns) / S
        columns = tuple(Column(BY_ID[name], queue) for name, queue in RATES)
        factors = np.array([1 + PORTS.index(port) for port in self.ports])
        values = np.array(list(RATES.values()))[:, None] * factors * seconds
        return ReadingBatch(
            "device",
            PortSet(("leaf1",) * len(self.ports), self.ports),
            columns,
            values.astype(np.uint64),
            np.zeros(values.shape, np.uint8),
            np.full(len(self.ports), time_ns, np.int64),
            (Column(BY_ID["oper_up"]),),
            np.ones((1, len(self.ports))),
        )

    def do(self, work: Any) -> Any:
        """Run a coroutine in the device's thread, and wait for it."""
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(30)

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call something in the device's thread."""

        async def work() -> None:
            function(*arguments)

        self.do(work())

    def close(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._feeder.cancel)
        self.do(self.agent.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


@contextmanager
def device(authority: Authority) -> Iterator[Device]:
    """A device for the time of a `with` block."""
    made = Device(authority, "leaf1")
    try:
        yield made
    finally:
        made.close()


class Story:
    """What was done to the device, and when."""

    def __init__(self, daemon: RunningDaemon) -> None:
        """Told to `daemon`'s device."""
        self.daemon = daemon
        self.told: dict[str, tuple[int, int, bool]] = {}
        """What happened, when, until when nothing else did, and whether the target is up then."""

    def tell(self, what: str, *, up: bool, after_s: float = 0.0) -> None:
        """Something has just happened, or can be known after a while; live with it for some time.

        Long enough for the state to be right, as seen by the daemon.
        """
        at = SystemClock().now_ns() + round(after_s * S)
        self.daemon.wait_ticks(3 + round(after_s / INTERVAL_S))
        self.told[what] = at, SystemClock().now_ns(), up

    def wait(self, *, up: bool) -> None:
        """Until the daemon says so of the target."""
        name = "fabricmon_target_up"
        self.daemon.wait(
            lambda: list(self.daemon.samples(name, target="leaf1").values()) == [float(up)]
        )

    def series(self, port: str) -> int:
        """How many rates of a port are on the page."""
        samples = self.daemon.samples("fabricmon_port_receive_bytes_total", device="leaf1")
        return sum(dict(labels)["port"] == port for labels in samples)


def live_through_it(story: Story, device: Device, folder: Path) -> None:
    """Everything that goes wrong, one after the other."""
    agent = device.agent
    story.wait(up=True)
    story.tell("began", up=True)
    for age_s in (3.0, 0.0, 1.5, 0.0, 3.0):
        batch = device.counts(SystemClock().now_ns() - round(age_s * S))
        device.call(agent.send_anyway, [batch, batch])
        time.sleep(0.5)
    story.tell("late and doubled updates", up=True)

    device.do(agent.stop())
    story.tell("gone", up=False)
    device.do(agent.start(device.address, 2.5 * INTERVAL_S))
    begun = agent.connections
    story.tell("back, to be sent away (GOAWAY) again and again", up=True)
    story.daemon.wait(lambda: agent.connections >= begun + 3)
    device.do(agent.stop())
    device.do(agent.start(device.address))
    story.tell("restarted", up=True)

    agent.silent = True
    story.tell("silent", up=False, after_s=SILENCE_S)
    agent.silent = False
    story.tell("speaks", up=True)

    device.ports = ("swp1",)
    device.call(agent.remove, "swp2")
    story.tell("swp2 deleted", up=True)
    assert not story.series("swp2")
    assert story.series("swp1")
    device.ports = PORTS
    story.tell("swp2 is there again", up=True)
    assert story.series("swp2")

    device.do(agent.stop())
    other = Authority(folder, "renewed authority")
    device.certify(other, "leaf1-renewed")
    device.do(agent.start(device.address))
    story.tell("a certificate nobody knows", up=False)
    (folder / "ca.pem").write_bytes(other.file.read_bytes())
    story.tell("its authority is on disk", up=True)

    device.do(agent.stop())
    device.since_ns = SystemClock().now_ns() - 20 * S
    device.do(agent.start(device.address))
    story.tell("rebooted: counts from near zero", up=True)


def wrong_rates(items: list[Item]) -> tuple[int, list[str]]:
    """How many rates of all ticks are right, and each that is not."""
    table = PortTable()
    right, wrong = 0, []
    for frame in frames(items, table):
        for counter, queue, port, rate in rates(frame, table):
            expected = RATES[counter, queue] * (1 + PORTS.index(port))
            if abs(rate - expected) < 1e-3 * expected:
                right += 1
            else:
                wrong.append(f"{frame.time_ns} {port} {counter}: {rate} for {expected}")
    return right, wrong


def rates(frame: Frame, table: PortTable) -> Iterator[tuple[str, int, str, float]]:
    """Counter, queue, port and rate of everything that has one in a frame."""
    for counter, queue in RATES:
        row = frame.row(counter) if queue < 0 else frame.queue_row(counter)
        if row is None:
            continue
        own = frame.rate[row] if queue < 0 else frame.queue_rate[row]
        values = own if queue < 0 else own[:, frame.queues.index(queue)]
        for n in np.flatnonzero(np.isfinite(values)).tolist():
            yield counter, queue, table.ids[n].port, float(values[n])


class Seen:
    """What the daemon recorded, tick by tick."""

    def __init__(self, items: list[Item]) -> None:
        """Everything, in order."""
        self.failures: list[PollFailure] = []
        self.ticks: list[tuple[int, bool]] = []
        """When each began, and whether the target was up."""
        self.named: list[tuple[int, set[str]]] = []
        """When each tick with readings began, and the ports they were of."""
        up, ports = True, set[str]()
        for item in items:
            if isinstance(item, PollFailure):
                self.failures.append(item)
                up = False
            elif isinstance(item, ReadingBatch):
                ports.update(item.ports.port)
            elif isinstance(item, Tick):
                self.ticks.append((item.time_ns, up))
                if ports:
                    self.named.append((item.time_ns, ports))
                up, ports = True, set()

    def wrong_states(self, told: dict[str, tuple[int, int, bool]]) -> list[str]:
        """Ticks an interval or more after something happened that have not its state."""
        wrong = []
        for what, (at, until, expected) in told.items():
            due = [up for tick, up in self.ticks if at + INTERVAL_S * S <= tick < until]
            assert due, f"{what}: no tick came"
            wrong += [what for up in due if up is not expected]
        return wrong

    def reasons(self, since_ns: int, until_ns: int, *_up: bool) -> set[Reason]:
        """Why polls failed in that time."""
        return {f.reason for f in self.failures if since_ns <= f.time_ns < until_ns}


def test_a_device_that_restarts_falls_silent_lies_and_is_renewed(tmp_path: Path) -> None:
    """No tick has a wrong rate, whatever the device did, and each has its state of an interval ago.

    A port that was deleted is named no more, by the same measure.
    """
    authority = Authority(tmp_path)
    (tmp_path / "ca.pem").write_bytes(authority.file.read_bytes())
    with device(authority) as leaf:
        config = CONFIG.format(folder=tmp_path, interval=INTERVAL_S, address=leaf.address)
        with running(tmp_path, config) as daemon:
            story = Story(daemon)
            leaf.call(leaf.agent.say_also, UNKNOWN, 7, "swp1")
            live_through_it(story, leaf, tmp_path)
            listed = fabricmon("mappings", "--unmatched", daemon.url)
            assert listed.stdout.split()[1:] == [UNKNOWN.replace("[name=swp1]", "")]
            code, _ = daemon.stop()
            assert code == 0
    items = recorded(tmp_path / "recordings")
    right, wrong = wrong_rates(items)
    assert wrong == []
    assert right > 100
    seen, told = Seen(items), story.told
    assert seen.wrong_states(told) == []
    assert seen.reasons(*told["gone"]) <= {Reason.UNREACHABLE, Reason.REFUSED}
    assert seen.reasons(*told["silent"]) == {Reason.NO_DATA}
    assert Reason.AUTHENTICATION in seen.reasons(*told["a certificate nobody knows"])
    at, until, _ = told["swp2 deleted"]
    named = [ports for tick, ports in seen.named if at + INTERVAL_S * S <= tick < until]
    assert named
    assert all(ports == {"swp1"} for ports in named)
