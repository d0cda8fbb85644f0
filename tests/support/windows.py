"""Windows whose signals a test sets by hand, for detectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.api import Context
from fabricmon.model.counters import BY_ID
from fabricmon.model.frame import Frame, Ratios
from fabricmon.model.ports import PortTable
from fabricmon.model.topology import Link, Node, PortId, Role, Technology, Topology
from fabricmon.model.window import Window
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricmon.api import Detector
    from fabricmon.model.snapshot import Scores

_RATES = ("tx_bytes", "rx_discards", "rx_errors", "link_downed", "out_of_sequence", "cnp_sent")
_QUEUE_RATES = ("rx_pfc_frames", "tx_pfc_frames", "ecn_marked_packets")
_S = 1_000_000_000


def star(hosts: int = 32, technology: Technology = Technology.ROCE) -> Topology:
    """One leaf with that many hosts."""
    nodes = [Node("leaf", "switch", Role.LEAF, technology)]
    nodes += [Node(f"h{i}", "host", Role.HOST, technology) for i in range(hosts)]
    links = [Link(PortId("leaf", f"e{i}"), PortId(f"h{i}", "eth0"), 1e11) for i in range(hosts)]
    return Topology(tuple(nodes), tuple(links))


class Stage:
    """A fabric, a detector, and signals set by name: `tick(stall=array, ecn=0.0)`."""

    def __init__(self, make: Callable[[Context], Detector], topology: Topology) -> None:
        """`make` builds the detector from a context."""
        clock = ManualClock()
        self.context = Context(clock, Reporter(clock))
        self.topology = topology
        self.table = PortTable()
        self.table.adopt(topology)
        self.window = Window()
        self.detector = make(self.context)
        self.now = 0
        self.generator = np.random.default_rng(5)

    def row(self, device: str, port: str) -> int:
        """The row of a port."""
        row = self.table.row(PortId(device, port))
        assert row is not None
        return row

    def noise(self, size: float) -> np.ndarray:
        """float32[N]: what a healthy fabric shows of a signal now."""
        return self.generator.exponential(size, len(self.table)).astype(np.float32)

    def healthy(self, ticks: int, size: float = 0.01) -> list[Scores]:
        """A fabric that congests a little all the time."""
        return [
            self.tick(stall=self.noise(size), press=self.noise(size / 2), ecn=self.noise(200))
            for _ in range(ticks)
        ]

    def tick(self, **signals: np.ndarray | float) -> Scores:
        """One tick; what is not given is zero, NaN is unknown."""
        n, self.now = len(self.table), self.now + 1
        given = {k: np.broadcast_to(np.float32(v), (n,)) for k, v in signals.items()}
        zero = np.zeros(n, np.float32)

        def get(name: str) -> np.ndarray:
            return given.get(name, zero)

        port_rates = [get(s) for s in ("tx_rate", "drops", "errors", "downs", "resent", "cnp")]
        queue_rates = [get(s)[:, None] for s in ("rx_pause", "tx_pause", "ecn")]
        frame = Frame(
            time_ns=self.now * _S,
            interval_s=1.0,
            counters=tuple(BY_ID[name] for name in _RATES),
            rate=np.stack(port_rates),
            total=np.zeros((len(_RATES), n), np.uint64),
            state=np.zeros((len(_RATES), n), np.uint8),
            queue_counters=tuple(BY_ID[name] for name in _QUEUE_RATES),
            queues=(3,),
            queue_rate=np.stack(queue_rates),
            queue_total=np.zeros((3, n, 1), np.uint64),
            queue_state=np.zeros((3, n, 1), np.uint8),
            gauges={},
            queue_gauges={"queue_depth_bytes": get("depth")[:, None]},
            elapsed_s=np.ones(n, np.float32),
            age_s=np.broadcast_to(np.float32(signals.get("age_s", 0)), (n,)),
            ratios=Ratios(
                stall=get("stall"),
                press=get("press"),
                tx_use=get("tx_use"),
                rx_use=get("rx_use"),
                estimated=np.zeros(n, np.bool_),
                stall_low=get("stall"),
                stall_high=get("stall"),
                queue_stall=get("stall")[:, None],
                queue_press=get("press")[:, None],
            ),
        )
        self.window.push(frame)
        return self.detector.score(self.window, self.table, self.topology)


def at(n: int, row: int, value: float) -> np.ndarray:
    """float32[n]: zero but in one row."""
    out = np.zeros(n, np.float32)
    out[row] = value
    return out
