"""Somebody cleared counters, or a device restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.model.incident import Cause, Evidence, Finding, IncidentKind, Severity, Verdict
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.diagnose.view import FabricView


class CounterReset:
    """Counters fell, which is no wrap."""

    kind: ClassVar[str] = IncidentKind.COUNTER_RESET
    signature: ClassVar[str] = "Counters of a device fell without having passed their top."
    discriminator: ClassVar[str] = (
        "Many devices at the same tick: another tool clears the whole fabric. One device: it "
        "restarted, or somebody cleared it."
    )
    advice: ClassVar[str] = (
        "Find who clears counters (perfquery -R, ibqueryerrors -k, opensm perfmgr, UFM, a cron "
        "job, an operator's `clear counters`). Two tools that both rely on absolute values cannot "
        "share a fabric. fabricmon itself never resets and loses only the one interval."
    )
    limits: ClassVar[str] = (
        "A counter that is cleared and passes its old value within one poll looks like a slow one."
    )
    opens_after: ClassVar[int] = 1

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding for the fabric when many devices fell, else one per device."""
        frame, shape = view.frame, view.shape
        fell = (frame.state == State.RESET).any(axis=0)
        fell |= (frame.queue_state == State.RESET).any(axis=(0, 2))
        devices = np.unique(shape.node[fell])
        if len(devices) > 3:
            return [self._finding(view, np.flatnonzero(fell), None, len(devices))]
        return [
            self._finding(view, np.flatnonzero(fell & (shape.node == device)), int(device), 1)
            for device in devices
        ]

    def _finding(
        self, view: FabricView, rows: np.ndarray, device: int | None, devices: int
    ) -> Finding:
        port = view.table.ids[int(rows[0])]
        states = view.frame.state[:, rows[0]] == State.RESET
        named = [c.id for c, fell in zip(view.frame.counters, states, strict=True) if fell]
        evidence = Evidence(
            named[0] if named else "queue counters",
            port.device,
            port.port,
            float(len(rows)),
            "ports whose counters fell",
            f"0; seen on {devices} devices at once" if devices > 1 else "0",
        )
        causes: tuple[Cause, ...] = ()
        if device is not None:
            causes = (view.device_cause(device, 0.9),)
        return Finding(
            IncidentKind.COUNTER_RESET,
            Verdict.TELEMETRY,
            Severity.MILD,
            0.9,
            causes,
            (),
            (evidence,),
            self.advice,
            reason="fabric-wide" if device is None else "",
            rows=tuple(map(int, rows[:1000])),
        )


RULE = CounterReset
