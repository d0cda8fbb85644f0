"""A device that is not heard of, or whose counters stand still."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.past.levels import known_mean
from fabricmon.model.incident import Evidence, Finding, IncidentKind, Severity, Verdict
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.view import FabricView

_SENT = 0.01
"""Share of its link that a peer must send to be a witness."""
_WITNESSES = 2


class TelemetryStale:
    """No fresh values of a whole device for several polls."""

    kind: ClassVar[str] = IncidentKind.TELEMETRY_STALE
    signature: ClassVar[str] = (
        "Most ports of a device have had no fresh reading for several polls, or its counters have "
        "stopped moving for longer than the device's own refresh period."
    )
    discriminator: ClassVar[str] = (
        "The reading is old; nothing is said about the traffic. A device that repeats its numbers "
        "is told from an idle one by the other ends of its links, which count traffic for it."
    )
    advice: ClassVar[str] = (
        "Check the target: reachability, credentials, CPU of its management plane, exporter or "
        "agent process. Until it answers, congestion there is not seen."
    )
    limits: ClassVar[str] = (
        "A device that was never read at all is reported as a failed target. One that repeats its "
        "numbers is noticed only where the other ends of two of its links are read."
    )

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per device that has gone silent."""
        frame, shape = view.frame, view.shape
        old = self._old(view)
        ever = np.isfinite(frame.age_s)
        devices = len(shape.is_host)
        silent = np.bincount(shape.node[old & ever], minlength=devices)
        known = np.bincount(shape.node[ever], minlength=devices)
        gone = (known > 0) & (silent > known // 2)
        found = [self._finding(view, int(device)) for device in np.flatnonzero(gone)]
        frozen = np.flatnonzero(self._frozen(view) & ~gone)
        return found + [self._frozen_finding(view, int(device)) for device in frozen]

    @staticmethod
    def _unseen(view: FabricView) -> NDArray[np.float32]:
        """float32[N]: share of the link that a peer sends and that its port does not count."""
        polls = view.config.stale_after
        told = view.shape.at_peer(known_mean(view.window.past("tx_use", polls)))
        counted = view.window.past("rx_use", polls)
        still = (counted == 0).all(axis=0) & (len(counted) == polls)
        return np.where(still, np.nan_to_num(told), np.float32(0))

    def _frozen(self, view: FabricView) -> NDArray[np.bool_]:
        """bool[D]: devices that count nothing anywhere while their neighbours send to them."""
        devices = len(view.shape.is_host)
        polls = view.config.stale_after
        got, sent = view.window.past("rx_use", polls), view.window.past("tx_use", polls)
        moves = np.any(np.fmax(got, sent) > 0, axis=0)
        told = np.bincount(view.shape.node, self._unseen(view) > _SENT, devices)
        frozen: NDArray[np.bool_] = told >= _WITNESSES
        frozen &= np.bincount(view.shape.node, moves, devices) == 0
        return frozen

    def _frozen_finding(self, view: FabricView, device: int) -> Finding:
        """The same claim, shown by both ends of the links with the most traffic."""
        rows = view.shape.rows_of(device)
        most = rows[np.argsort(-self._unseen(view)[rows], kind="stable")][:_WITNESSES]
        evidence = [view.evidence(int(row), "rx_use", "what its peer sends") for row in most]
        evidence += [view.evidence(int(view.shape.peer[row]), "tx_use") for row in most]
        return replace(self._finding(view, device), evidence=tuple(evidence), reason="frozen")

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
