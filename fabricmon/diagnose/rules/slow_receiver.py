"""A host that takes less than its link and holds its switch port back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.fabric.graph import SinkKind
from fabricmon.diagnose.fabric.plateau import clipped_ports
from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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

    opens_after: ClassVar[int] = 1  # what it stands on has lasted some polls already

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """Sinks that a host holds back, and plateaus that a host shows a little pause for."""
        ends = [(sink.row, sink.victims) for sink in view.sinks if sink.kind is SinkKind.HOST]
        clipped = (port for port in clipped_ports(view) if port.by_host)
        ends += [(port.row, np.union1d(port.victims, [port.row])) for port in clipped]
        return [self._finding(view, row, victims) for row, victims in ends]

    def _finding(self, view: FabricView, row: int, victims: NDArray[np.intp]) -> Finding:
        host = int(view.shape.peer[row])
        stall = float(view.stall[row])
        severe = stall >= view.config.continuous - 0.03
        evidence = (
            view.evidence(row, "stall"),
            view.evidence(host, "press"),
            view.evidence(row, "depth"),
            view.evidence(row, "tx_use", "what its senders offer"),
        )
        return Finding(
            IncidentKind.SLOW_RECEIVER,
            Verdict.HOST,
            Severity.SEVERE if severe else Severity.MILD,
            0.9,
            (view.cause(host, 0.9),),
            view.victims(victims),
            (*evidence, *view.tree(victims[victims != row])),
            self.advice,
            rows=(host, *map(int, victims)),
        )


RULE = SlowReceiver
