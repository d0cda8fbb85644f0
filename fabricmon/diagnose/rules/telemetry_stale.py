"""A device that is not heard of, or whose counters stand still."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.model.incident import Evidence, Finding, IncidentKind, Severity, Verdict
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView


class TelemetryStale:
    """No fresh values of a whole device for several polls."""

    kind: ClassVar[str] = IncidentKind.TELEMETRY_STALE
    signature: ClassVar[str] = (
        "Most ports of a device have had no fresh reading for several polls, or its counters have "
        "stopped moving for longer than the device's own refresh period."
    )
    discriminator: ClassVar[str] = "The reading is old; nothing is said about the traffic."
    advice: ClassVar[str] = (
        "Check the target: reachability, credentials, CPU of its management plane, exporter or "
        "agent process. Until it answers, congestion there is not seen."
    )
    limits: ClassVar[str] = "A device that was never read at all is reported as a failed target."

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per device that has gone silent."""
        frame, shape = view.frame, view.shape
        old = self._old(view)
        ever = np.isfinite(frame.age_s)
        devices = len(shape.is_host)
        silent = np.bincount(shape.node[old & ever], minlength=devices)
        known = np.bincount(shape.node[ever], minlength=devices)
        gone = np.flatnonzero((known > 0) & (silent > known // 2))
        return [self._finding(view, int(device)) for device in gone]

    @staticmethod
    def _old(view: FabricView) -> NDArray[np.bool_]:
        frame = view.frame
        late = frame.age_s > view.config.stale_after * frame.interval_s
        stuck = (frame.state == State.STALE).sum(axis=0) * 2 > len(frame.counters)
        old: NDArray[np.bool_] = late | (stuck if len(frame.counters) else False)
        return old

    def _finding(self, view: FabricView, device: int) -> Finding:
        rows = view.shape.rows_of(device)
        ages = view.frame.age_s[rows]
        worst = int(rows[np.argmax(np.where(np.isfinite(ages), ages, -1))])
        port = view.table.ids[worst]
        evidence = Evidence(
            "age_s",
            port.device,
            port.port,
            float(view.frame.age_s[worst]),
            "s",
            f"at most {view.config.stale_after * view.frame.interval_s:g}",
        )
        return Finding(
            IncidentKind.TELEMETRY_STALE,
            Verdict.TELEMETRY,
            Severity.MODERATE,
            0.95,
            (view.device_cause(device, 0.95),),
            (),
            (evidence,),
            self.advice,
            rows=tuple(map(int, rows)),
        )


RULE = TelemetryStale
