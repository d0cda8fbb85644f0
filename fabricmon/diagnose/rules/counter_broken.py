"""Counters that cannot be right."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.model.incident import Evidence, Finding, IncidentKind, Severity, Verdict
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

_MOST = 8


class CounterBroken:
    """A port whose counters break physics, or stand at their maximum."""

    kind: ClassVar[str] = IncidentKind.COUNTER_BROKEN
    signature: ClassVar[str] = (
        "A counter moves faster than the link can carry, or stands at its maximum."
    )
    discriminator: ClassVar[str] = (
        "`over-rate`: the value is impossible. `saturated`: a sticky counter is full, so that the "
        "rate is unknown and not zero."
    )
    advice: ClassVar[str] = (
        "over-rate: check the speed the device reports, the mapping's unit and width, and firmware "
        "notes. saturated: read the 64-bit counters (perfquery -x), or let whoever owns the "
        "counters clear them; until then congestion on this port is not seen."
    )
    limits: ClassVar[str] = "A counter that is wrong within the limits of physics is not noticed."

    opens_after: ClassVar[int] = 3

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per device and reason."""
        found: list[Finding] = []
        for state, reason in ((State.OVER_RATE, "over-rate"), (State.SATURATED, "saturated")):
            bad = (view.frame.state == state).any(axis=0)
            bad |= (view.frame.queue_state == state).any(axis=(0, 2))
            rows = np.flatnonzero(bad)
            for device in np.unique(view.shape.node[rows])[:_MOST]:
                own = rows[view.shape.node[rows] == device]
                found.append(self._finding(view, own, state, reason))
        return found

    def _finding(
        self, view: FabricView, rows: NDArray[np.intp], state: State, reason: str
    ) -> Finding:
        row = int(rows[0])
        port = view.table.ids[row]
        hit = view.frame.state[:, row] == state
        names = [c.id for c, bad in zip(view.frame.counters, hit, strict=True) if bad]
        evidence = Evidence(
            names[0] if names else "queue counters",
            port.device,
            port.port,
            float(len(rows)),
            "ports of this device",
            "0",
        )
        cause = (
            view.cause(row, 0.9) if len(rows) == 1 else view.device_cause(int(view.shape.node[row]))
        )
        return Finding(
            IncidentKind.COUNTER_BROKEN,
            Verdict.TELEMETRY,
            Severity.MILD,
            0.9,
            (cause,),
            (),
            (evidence,),
            self.advice,
            reason=reason,
            rows=tuple(map(int, rows[:1000])),
        )


RULE = CounterBroken
