"""One incident in the making: what was claimed at each tick, and what that adds up to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.diagnose.tracking.arbiter import GUESS, same_place
from fabricmon.diagnose.tracking.belief import believed
from fabricmon.diagnose.tracking.written import Written
from fabricmon.model.incident import (
    SEVERITY_ORDER,
    Cause,
    Finding,
    Incident,
    IncidentKind,
    IncidentState,
    Severity,
    Verdict,
    Victim,
    incident_id,
)
from fabricmon.model.ports import Saved
from fabricmon.model.topology import PortId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.diagnose.config import DiagnoseConfig
    from fabricmon.diagnose.view import FabricView
    from fabricmon.model.incident import Evidence
    from fabricmon.model.ports import PortTable

_BY_PORT = ("_risen", "_stalled", "_victim")
_SHOWN_UNDER = {
    IncidentKind.INCAST,
    IncidentKind.OVERSUBSCRIPTION,
    IncidentKind.PATH_IMBALANCE,
    IncidentKind.UNCLASSIFIED,
}
"""Congestion that brings a wrong setting to light."""
_DROPS = {"pfc-off", "pfc-one-sided", "lossless-drops"}
"""Reasons that were counted: congestion control ends the drops and not what is wrong."""
_STAYS = 0.75
"""Share of claims with a name that have the same, or it is traffic that moves on and no cause."""
_REMEMBERED = 2048
"""Ticks of which a track knows whether they had a claim: more than any setting looks back."""


class Track:
    """Evidence gathered since the first claim.

    Kind and causes are voted over the life of the track, each claim weighing its confidence,
    because the first polls of an incident are the least clear ones.
    """

    def __init__(self, now_ns: int) -> None:
        """Nothing is claimed yet."""
        self.first_ns = self.last_ns = now_ns
        self.hits: list[bool] = []
        """Whether each tick since the first had a claim, latest last."""
        self.incident: Incident | None = None
        self.rows: frozenset[int] = frozenset()
        """Rows of the latest claim."""
        self.finding: Finding | None = None
        """The latest claim, None at a tick without one."""
        self._kinds: defaultdict[tuple[IncidentKind, str], float] = defaultdict(float)
        self._weight: defaultdict[tuple[IncidentKind, str, str], float] = defaultdict(float)
        self._named: dict[tuple[str, str], Cause] = {}
        self._leading: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Claims that named each place first."""
        self._latest: dict[IncidentKind, Finding] = {}
        self._hardest: dict[IncidentKind, tuple[float, Finding]] = {}
        self._risen = np.zeros(0, np.float32)
        self._stalled = np.zeros(0, np.float32)
        self._victim = np.zeros(0, np.bool_)
        self._claims = 0
        self._sure: defaultdict[IncidentKind, float] = defaultdict(float)
        self._times: defaultdict[IncidentKind, int] = defaultdict(int)

    def begin_tick(self) -> None:
        """No claim yet at this tick."""
        self.finding = None
        if len(self.hits) >= 2 * _REMEMBERED:
            del self.hits[:_REMEMBERED]
        self.hits.append(False)

    def claim(self, finding: Finding, view: FabricView) -> None:
        """Take the claim of this tick."""
        self.finding = finding
        self.hits[-1] = True
        self.last_ns = view.frame.time_ns
        self._claims += 1
        self._kinds[finding.kind, finding.reason] += finding.confidence
        self._sure[finding.kind] += finding.confidence
        self._times[finding.kind] += 1
        for rank, cause in enumerate(finding.causes):
            place = self._place(cause)
            self._weight[finding.kind, *place] += finding.confidence * 0.5**rank
            self._named.setdefault(place, cause)
            if rank == 0:
                self._leading[place] += 1
        self._latest[finding.kind] = finding
        held = sum(victim.stall_ratio for victim in finding.victims)
        if held >= self._hardest.get(finding.kind, (0.0,))[0]:
            self._hardest[finding.kind] = held, finding
        self.rows = frozenset(finding.rows)
        if finding.verdict is not Verdict.TELEMETRY:
            self._hold(finding, view)

    def write(self, ids: Sequence[PortId]) -> tuple[Written, Saved]:
        """The track, and its arrays by port."""
        written = Written(
            self.first_ns,
            self.last_ns,
            self.hits,
            self.incident,
            [ids[row] for row in sorted(self.rows)],
            list(self._kinds.items()),
            list(self._weight.items()),
            list(self._named.items()),
            list(self._leading.items()),
            [(kind, replace(finding, rows=())) for kind, finding in self._latest.items()],
            [(k, (held, replace(f, rows=()))) for k, (held, f) in self._hardest.items()],
            self._claims,
            list(self._sure.items()),
            list(self._times.items()),
        )
        self._grow(len(ids))
        arrays = Saved()
        arrays.attributes(self, _BY_PORT)
        return written, arrays

    @classmethod
    def read(cls, written: Written, arrays: Saved, table: PortTable) -> Track:
        """The track again. Raises `KeyError` or `ValueError` where the arrays do not fit."""
        track = cls(written.first_ns)
        arrays.give_back(track, _BY_PORT)
        track.last_ns, track.hits = written.last_ns, written.hits
        track.incident, track._claims = written.incident, written.claims
        rows = (table.row(port) for port in written.rows)
        track.rows = frozenset(row for row in rows if row is not None)
        track._kinds.update(written.kinds)
        track._weight.update(written.weight)
        track._named = dict(written.named)
        track._leading.update(written.leading)
        track._latest, track._hardest = dict(written.latest), dict(written.hardest)
        track._sure.update(written.sure)
        track._times.update(written.times)
        return track

    def _grow(self, ports: int) -> None:
        for name in _BY_PORT:
            array = getattr(self, name)
            if len(array) < ports:
                setattr(self, name, np.pad(array, (0, ports - len(array))))

    def _place(self, cause: Cause) -> tuple[str, str]:
        """The key under which this cause, or the other end of its cable, is already known."""
        for place, known in self._named.items():
            if bool(cause.port) == bool(known.port) and same_place(cause, known):
                return place
        return cause.device, cause.port

    def _hold(self, finding: Finding, view: FabricView) -> None:
        """Add up every port's stall: one that is named now and then is judged by its mean."""
        self._grow(view.frame.n_ports)
        stall = np.where(view.latched, np.float32(1), np.nan_to_num(view.stall))
        self._stalled += stall
        self._risen += stall - np.nan_to_num(view.stall_past)
        rows = [view.table.row(PortId(v.device, v.port)) for v in finding.victims]
        self._victim[[row for row in rows if row is not None]] = True

    @property
    def kind(self) -> IncidentKind:
        """The kind with the most weight so far."""
        return self.standing()[0]

    @property
    def clearest(self) -> tuple[Evidence, ...]:
        """Evidence of the tick at which victims were held back most: the last one shows the end."""
        return self._hardest[self.kind][1].evidence

    @property
    def telemetry(self) -> bool:
        """Whether this is about the telemetry itself."""
        return any(f.verdict is Verdict.TELEMETRY for f in self._latest.values())

    @property
    def guessed(self) -> bool:
        """Whether what it is held for is a guess."""
        kind = self.kind
        return self._sure[kind] / self._times[kind] < GUESS

    @property
    def wanders(self) -> bool:
        """Whether one port is named at one tick and another one at the next."""
        named = self._leading.values()
        return max(named, default=0) < _STAYS * sum(named)

    def shares_cause(self, finding: Finding) -> bool:
        """Whether the finding's first cause is one that led here; two without a cause are alike."""
        if not finding.causes:
            return not self._named
        return any(same_place(finding.causes[0], self._named[place]) for place in self._leading)

    def touches(self, finding: Finding) -> bool:
        """Whether the finding's cause, or a port behind it, is part of this trouble."""
        known = [row for row in finding.rows if row < len(self._victim)]
        shared = self._victim[known].any() or not self.rows.isdisjoint(finding.rows)
        return bool(shared) or self.shares_cause(finding)

    @property
    def misses(self) -> int:
        """Ticks since the latest claim."""
        return next((i for i, hit in enumerate(reversed(self.hits)) if hit), len(self.hits))

    def due(self, needed: int, within: int) -> bool:
        """Whether enough of the latest ticks had a claim."""
        return sum(self.hits[-within:]) >= needed

    def standing(self) -> tuple[IncidentKind, str, float]:
        """Kind, reason, and the share of the votes the kind has."""
        total: defaultdict[IncidentKind, float] = defaultdict(float)
        for (kind, _), weight in self._kinds.items():
            total[kind] += weight
        if any(kind is not IncidentKind.UNCLASSIFIED and w > 1.0 for kind, w in total.items()):
            total.pop(IncidentKind.UNCLASSIFIED, None)  # what a rule describes is not that
        best = max(total, key=lambda kind: total[kind])
        if best in _SHOWN_UNDER and self._drops():
            best = IncidentKind.LOSSLESS_MISCONFIG
        reasons = {reason: w for (kind, reason), w in self._kinds.items() if kind is best}
        share = total[best] / sum(total.values())
        return best, max(reasons, key=lambda reason: reasons[reason]), share

    def _drops(self) -> bool:
        """Whether a lossless class that drops was claimed, for sure, and more than once."""
        kind = IncidentKind.LOSSLESS_MISCONFIG
        lost = sum(w for (k, reason), w in self._kinds.items() if k is kind and reason in _DROPS)
        return lost > 1.0 and self._sure[kind] / self._times[kind] >= GUESS

    def open(self, fabric: str, config: DiagnoseConfig, view: FabricView) -> Incident:
        """The track has become an incident."""
        kind, reason, _ = self.standing()
        causes = self._causes(kind, config.max_causes)
        ident = incident_id(fabric, kind, causes[0] if causes else None, self.first_ns)
        self.incident = Incident(
            id=ident,
            fabric=fabric,
            kind=kind,
            reason=reason,
            verdict=Verdict.FABRIC,
            severity=Severity.MILD,
            state=IncidentState.OPEN,
            started_ns=self.first_ns,
            updated_ns=self.last_ns,
            ended_ns=None,
            confidence=0.0,
            causes=causes,
            victims=(),
            evidence=(),
            advice="",
            anomaly_score=0.0,
            price_per_gpu_hour=config.price_per_gpu_hour,
        )
        self.refresh(config, view)
        return self.incident

    def refresh(self, config: DiagnoseConfig, view: FabricView) -> None:
        """Bring the incident up to what has been claimed so far."""
        incident = self.incident
        assert incident is not None
        kind, reason, share = self.standing()
        finding = self._latest[kind]
        incident.kind, incident.reason, incident.verdict = kind, reason, finding.verdict
        if SEVERITY_ORDER[finding.severity] > SEVERITY_ORDER[incident.severity]:
            incident.severity = finding.severity
        incident.causes = self._causes(kind, config.max_causes)
        sure = self._sure[kind] / self._times[kind]
        incident.confidence = believed(sure, share)
        incident.victims = self._victims(config, view)
        incident.evidence, incident.advice = finding.evidence, finding.advice
        incident.anomaly_score = max(incident.anomaly_score, finding.anomaly_score)
        incident.updated_ns = view.frame.time_ns

    def _causes(self, kind: IncidentKind, most: int) -> tuple[Cause, ...]:
        votes = [
            (weight, self._named[place[1:]])
            for place, weight in self._weight.items()
            if place[0] is kind
        ]
        votes.sort(key=lambda vote: -vote[0])
        total = sum(weight for weight, _ in votes) or 1.0
        return tuple(replace(cause, confidence=w / total) for w, cause in votes[:most])

    def _victims(self, config: DiagnoseConfig, view: FabricView) -> tuple[Victim, ...]:
        """Ports that were held back for a noticeable share of the whole incident."""
        mean = self._stalled / max(self._claims, 1)
        rows = np.flatnonzero(self._victim & (self._risen >= config.stall * self._claims))
        worst = rows[np.argsort(-mean[rows], kind="stable")][: config.max_victims]
        ids = view.table.ids
        return tuple(
            Victim(ids[row].device, ids[row].port, min(float(mean[row]), 1.0)) for row in worst
        )
