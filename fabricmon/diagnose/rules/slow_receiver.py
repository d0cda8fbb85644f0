"""A host that takes less than its link and holds its switch port back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fabricmon.diagnose.fabric.graph import SinkKind
from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.diagnose.fabric.graph import Sink
    from fabricmon.diagnose.view import FabricView


class SlowReceiver:
    """A sink that a host holds back."""

    kind: ClassVar[str] = IncidentKind.SLOW_RECEIVER
    signature: ClassVar[str] = (
        "The switch port towards a host is held back (pause from the host, or no credits) and "
        "sends less than its link carries; ports upstream wait behind it."
    )
    discriminator: ClassVar[str] = (
        "The pressure ends at a port that a host holds back. In an incast that port is busy and "
        "nobody holds it back."
    )
    advice: ClassVar[str] = (
        "Look at the host: PCIe width and speed of its NIC, IOMMU, memory bandwidth, NUMA "
        "placement, a hung process that posts no receive buffers, NIC firmware. Drain the host "
        "from the job until it is clean."
    )
    limits: ClassVar[str] = (
        "Where congestion control hides the pauses, only a plateau below the link's rate with a "
        "standing queue is left, which needs queue depth or ECN counters."
    )

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per sink that a host holds back."""
        return [self._finding(view, sink) for sink in view.sinks if sink.kind is SinkKind.HOST]

    def _finding(self, view: FabricView, sink: Sink) -> Finding:
        host = int(view.shape.peer[sink.row])
        stall = float(view.stall[sink.row])
        severe = stall >= view.config.continuous - 0.03
        evidence = (
            view.evidence(sink.row, "stall"),
            view.evidence(sink.row, "tx_use", "what its senders offer"),
        )
        return Finding(
            IncidentKind.SLOW_RECEIVER,
            Verdict.HOST,
            Severity.SEVERE if severe else Severity.MILD,
            0.9,
            (view.cause(host, 0.9),),
            view.victims(sink.victims),
            (*evidence, *view.tree(sink.victims[sink.victims != sink.row])),
            self.advice,
            rows=(host, *map(int, sink.victims)),
        )


RULE = SlowReceiver
