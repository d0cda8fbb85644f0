"""A tiny leaf-spine fabric whose counters a test sets by hand, tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.api import Context
from fabricmon.diagnose import DiagnoseConfig, Diagnoser, Diagnosis
from fabricmon.model.counters import BY_ID, Scope
from fabricmon.model.frame import Frame, Ratios
from fabricmon.model.ports import PortTable
from fabricmon.model.readings import State
from fabricmon.model.snapshot import Scores
from fabricmon.model.topology import (
    Ecn,
    Intent,
    Job,
    Link,
    Node,
    PortId,
    Role,
    Technology,
    Topology,
)
from fabricmon.model.window import Window
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fabricmon.model.incident import Incident

    Values = Mapping[str, Mapping[PortId, float]]

SECOND = 1_000_000_000
PORT_COUNTERS = (
    "tx_bytes",
    "rx_bytes",
    "tx_packets",
    "rx_packets",
    "rx_errors",
    "tx_discards",
    "rx_discards",
    "link_downed",
    "retransmits",
    "out_of_sequence",
    "rx_pause_frames",
    "tx_pause_frames",
)
QUEUE_COUNTERS = (
    "rx_pfc_frames",
    "tx_pfc_frames",
    "ecn_marked_packets",
    "queue_discards",
    "queue_tx_bytes",
)

PACKET = 1000.0
ROCE = Intent(lossless_queues=(3,), ecn=Ecn.REQUIRED)


def leaf_spine(
    leaves: int = 3,
    spines: int = 2,
    hosts: int = 4,
    *,
    technology: Technology = Technology.ROCE,
    speed_bps: float = 100e9,
    jobs: tuple[Job, ...] = (),
    intent: Intent | None = None,
) -> Topology:
    """Hosts `h<leaf>-<n>` port `nic`; leaves with ports `d<n>`, `u<n>`; spines with `p<leaf>`."""
    nodes = [Node(f"spine{s}", "switch", Role.SPINE, technology) for s in range(spines)]
    links = []
    for leaf in range(leaves):
        nodes.append(Node(f"leaf{leaf}", "switch", Role.LEAF, technology))
        for host in range(hosts):
            nodes.append(Node(f"h{leaf}-{host}", "host", Role.HOST, technology))
            ends = PortId(f"h{leaf}-{host}", "nic"), PortId(f"leaf{leaf}", f"d{host}")
            links.append(Link(*ends, speed_bps))
        for spine in range(spines):
            ends = PortId(f"leaf{leaf}", f"u{spine}"), PortId(f"spine{spine}", f"p{leaf}")
            links.append(Link(*ends, speed_bps))
    return Topology(tuple(nodes), tuple(links), (), jobs, intent or Intent())


class Run:
    """A diagnoser fed by hand. Values not given are those of a calm, half-used fabric."""

    def __init__(
        self,
        topology: Topology,
        config: DiagnoseConfig | None = None,
        *,
        interval_s: float = 1.0,
        use: float = 0.4,
        queues: tuple[int, ...] = (3,),
        frames_only: bool = False,
    ) -> None:
        """`frames_only`: pauses are counted, not timed; the stall is an estimate."""
        self.topology = topology
        self.table = PortTable()
        self.table.adopt(topology)
        clock = ManualClock()
        self.context = Context(clock, Reporter(clock))
        self.diagnoser = Diagnoser(config or DiagnoseConfig(), "fabric", self.context)
        self.window = Window()
        self.interval_s = interval_s
        self.use = use
        self.queues = queues
        self.frames_only = frames_only
        self.now_ns = 1_700_000_000 * SECOND
        self.alarms: dict[PortId, float] = {}
        self.levels: dict[str, float] = {}
        """More gauges that every port tells; values of single ports are given tick by tick."""

    def ticks(self, count: int, values: Values | None = None, **options: object) -> Diagnosis:
        """So many ticks with the same values; gives the last diagnosis."""
        diagnosis = None
        for _ in range(count):
            diagnosis = self.tick(values, **options)
        assert diagnosis is not None
        return diagnosis

    def tick(
        self,
        values: Values | None = None,
        *,
        states: Mapping[PortId, State] | None = None,
        ages: Mapping[PortId, float] | None = None,
    ) -> Diagnosis:
        """One tick. `values`: ratio or counter name -> port -> share or rate per second."""
        self.now_ns += round(self.interval_s * SECOND)
        self.window.push(self.frame(values or {}, states or {}, ages or {}))
        anomaly = np.zeros(len(self.table), np.float32)
        for port, score in self.alarms.items():
            anomaly[self._row(port)] = score
        scores = Scores(anomaly, anomaly > 0.5)
        return self.diagnoser.diagnose(self.window, scores, self.table, self.topology)

    def _row(self, port: PortId) -> int:
        row = self.table.row(port)
        assert row is not None, port
        return row

    def frame(
        self, values: Values, states: Mapping[PortId, State], ages: Mapping[PortId, float]
    ) -> Frame:
        """The frame these values make."""
        n, q = len(self.table), len(self.queues)

        def filled(name: str, base: float | np.ndarray) -> np.ndarray:
            out = np.full(n, base, np.float32)
            for port, value in values.get(name, {}).items():
                out[self._row(port)] = value
            return out

        def levels(scope: Scope, **more: float) -> dict[str, np.ndarray]:
            told = {name: v for name, v in self.levels.items() if BY_ID[name].scope is scope}
            return {name: filled(name, level) for name, level in {**more, **told}.items()}

        tx, rx = filled("tx_use", self.use), filled("rx_use", self.use)
        bytes_ = self.table.speed_bps / 8
        base = {
            "tx_bytes": tx * bytes_,
            "rx_bytes": rx * bytes_,
            "tx_packets": tx * bytes_ / PACKET,
            "rx_packets": rx * bytes_ / PACKET,
        }
        rate = np.array([filled(c, base.get(c, 0.0)) for c in PORT_COUNTERS], np.float32)
        queue_rate = np.zeros((len(QUEUE_COUNTERS), n, q), np.float32)
        for k, counter in enumerate(QUEUE_COUNTERS):
            queue_rate[k, :, 0] = filled(counter, base["tx_bytes"] * (counter == "queue_tx_bytes"))
            for number, queue in enumerate(self.queues[1:], 1):
                queue_rate[k, :, number] = filled(f"{counter}:{queue}", 0.0)
        state = np.zeros(rate.shape, np.uint8)
        for port, what in states.items():
            state[:, self._row(port)] = what
        rate[state >= State.MISSING] = np.nan
        age = np.zeros(n, np.float32)
        for port, seconds in ages.items():
            age[self._row(port)] = seconds
        stall, press = filled("stall", 0.0), filled("press", 0.0)
        guessed = np.full(n, self.frames_only)
        ratios = Ratios(stall, press, tx, rx, guessed, stall, stall, stall[:, None], press[:, None])
        return Frame(
            self.now_ns,
            self.interval_s,
            tuple(BY_ID[c] for c in PORT_COUNTERS),
            rate,
            np.zeros(rate.shape, np.uint64),
            state,
            tuple(BY_ID[c] for c in QUEUE_COUNTERS),
            self.queues,
            queue_rate,
            np.zeros(queue_rate.shape, np.uint64),
            np.zeros(queue_rate.shape, np.uint8),
            {"oper_up": filled("oper_up", 1.0), **levels(Scope.PORT)},
            {
                name: level[:, None].repeat(q, 1)
                for name, level in levels(Scope.QUEUE, queue_depth_bytes=1000.0).items()
            },
            np.full(n, self.interval_s, np.float32),
            age,
            ratios,
        )


def only(run: Run, values: object, polls: int = 8, **options: object) -> Incident:
    """The one incident after some polls of these values."""
    found = run.ticks(polls, values, **options).open  # type: ignore[arg-type]
    assert len(found) == 1, [(i.kind, i.cause) for i in found]
    return found[0]


def calm(topology: Topology, polls: int = 40, **options: object) -> Run:
    """A fabric that has been healthy for a while."""
    run = Run(topology, **options)  # type: ignore[arg-type]
    run.ticks(polls)
    return run
