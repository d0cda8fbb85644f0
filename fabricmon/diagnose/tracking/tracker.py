"""Findings over time become incidents: k of n polls to open, hysteresis to close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.diagnose.tracking.track import Track
from fabricmon.diagnose.tracking.written import dump, load
from fabricmon.model.incident import Finding, Incident, IncidentKind, IncidentState, Verdict
from fabricmon.model.ports import Saved
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fabricmon.diagnose.config import DiagnoseConfig
    from fabricmon.diagnose.view import FabricView
    from fabricmon.model.ports import PortTable
    from fabricmon.model.topology import PortId
    from fabricmon.selfmon import Reporter


_GUESSES = 3
"""Claims that a guess needs at least."""
_SAME_CAUSE = 3.0
"""Likeness of a claim to a track that it shares its cause with; less is left for shared rows."""


class Tracker:
    """The incidents of one fabric. Ids depend on fabric, kind, cause and start only."""

    def __init__(
        self,
        config: DiagnoseConfig,
        fabric: str,
        report: Reporter,
        opens_after: Mapping[str, int],
    ) -> None:
        """`opens_after`: kinds that need fewer polls than `config.open_after`."""
        self._config = config
        self._fabric = fabric
        self._report = report
        self._opens_after = opens_after
        self._tracks: list[Track] = []
        self._inherited: list[Incident] = []

    def adopt(self, incidents: Sequence[Incident]) -> None:
        """Go on, at the next tick, with incidents another daemon has open; ids and costs stay."""
        self._inherited = list(incidents)

    @property
    def tracks(self) -> Sequence[Track]:
        """Incidents and what may become one."""
        return self._tracks

    def save(self, ids: Sequence[PortId]) -> Saved:
        """Every track, and what it added up by port."""
        saved, all_written = Saved(), []
        for place, track in enumerate(self._tracks):
            written, arrays = track.write(ids)
            all_written.append(written)
            saved.add(str(place), arrays)
        saved.write("tracks", dump(all_written))
        return saved

    def restore(self, saved: Saved, table: PortTable) -> None:
        """Go on with them. Raises `KeyError` or `ValueError` where they do not fit."""
        self._tracks = [
            Track.read(written, saved.part(str(place)), table)
            for place, written in enumerate(load(saved.read("tracks")))
        ]

    def update(
        self, findings: Sequence[Finding], view: FabricView
    ) -> tuple[list[Incident], list[Incident]]:
        """Take one tick's findings. Gives what is open or clearing, and what closed just now."""
        for track in self._tracks:
            track.begin_tick()
        inherited, self._inherited = self._inherited, []
        for open_elsewhere in inherited:
            self._go_on_with(open_elsewhere, view)
        for finding in sorted(findings, key=self._newness):
            known = self._track_of(finding)
            if known is not None or not self._explained(finding):
                (known or self._new(view.frame.time_ns)).claim(finding, view)
        closed = [
            incident
            for track in self._tracks
            if (incident := self._settle(track, view)) is not None
        ]
        self._tracks = [track for track in self._tracks if self._alive(track)]
        still = [track.incident for track in self._tracks if track.incident is not None]
        return sorted(still, key=Incident.sort_key), closed

    def _go_on_with(self, incident: Incident, view: FabricView) -> None:
        """Take the place of what is seen here of the same trouble, or wait for a claim of it."""
        claim = _claim_of(incident)
        same = (t for t in self._tracks if t.incident is not None and t.incident.id == incident.id)
        track = next(same, None) or self._track_of(claim)
        if track is None:
            track = self._new(view.frame.time_ns)
            track.claim(claim, view)
            track.begin_tick()
        elif track.incident is not None:
            incident.evidence = track.incident.evidence
        track.incident, track.first_ns = incident, incident.started_ns

    def _new(self, now_ns: int) -> Track:
        track = Track(now_ns)
        track.begin_tick()
        self._tracks.append(track)
        return track

    def _track_of(self, finding: Finding) -> Track | None:
        """The track this finding goes on with: the one with the most in common, if any.

        A track takes one claim a tick, so that two causes seen side by side stay apart.
        """
        scored = [(self._likeness(track, finding), track) for track in self._tracks]
        best, track = max(scored, key=lambda pair: pair[0], default=(0.0, None))
        return track if best > 0 else None

    def _explained(self, finding: Finding) -> bool:
        """Whether an alarm that no rule describes lies within an incident that has its claim."""
        return finding.kind is IncidentKind.UNCLASSIFIED and any(
            track.incident is not None and not track.telemetry and track.touches(finding)
            for track in self._tracks
        )

    def _newness(self, finding: Finding) -> bool:
        """Who goes on with the same cause does so before others take its track for its rows."""
        return not any(self._likeness(track, finding) >= _SAME_CAUSE for track in self._tracks)

    def _likeness(self, track: Track, finding: Finding) -> float:
        if track.finding is not None or not track.hits or not any(track.hits):
            return 0.0
        telemetry = finding.verdict is Verdict.TELEMETRY
        if telemetry or track.telemetry:
            alike = telemetry and track.kind is finding.kind
            return float(alike and track.shares_cause(finding))
        if track.shares_cause(finding):
            return _SAME_CAUSE
        union = len(track.rows | frozenset(finding.rows)) or 1
        common = len(track.rows.intersection(finding.rows))
        inside = bool(finding.rows) and finding.rows[0] in track.rows
        described = 2 * common > len(track.rows) and track.kind is IncidentKind.UNCLASSIFIED
        shared = common / union
        return 1.0 + shared if inside or described or shared > 0.3 else 0.0

    def _settle(self, track: Track, view: FabricView) -> Incident | None:
        """Open, refresh, let clear or close one track. Gives the incident when it closed."""
        incident, config = track.incident, self._config
        if incident is None:
            needed = self._opens_after.get(track.kind, config.open_after)
            if track.guessed:  # a collective that is a little worse for once makes one, too
                needed = max(needed, config.open_after, _GUESSES)
            if track.due(needed, self._within(needed)) and not (track.guessed and track.wanders):
                opened = track.open(self._fabric, config, view)
                self._report.emit(
                    Event.INCIDENT_OPENED, opened.id, kind=opened.kind.value, fabric=self._fabric
                )
            return None
        if track.finding is not None:
            incident.state = IncidentState.OPEN
            track.refresh(config, view)
        elif track.misses >= config.clear_after:
            incident.state, incident.ended_ns = IncidentState.CLOSED, track.last_ns
            incident.updated_ns = view.frame.time_ns
            self._report.emit(
                Event.INCIDENT_CLOSED, incident.id, kind=incident.kind.value, fabric=self._fabric
            )
            return incident
        else:
            incident.state = IncidentState.CLEARING
            incident.evidence = track.clearest
        return None

    def _alive(self, track: Track) -> bool:
        if track.incident is not None:
            return track.incident.state is not IncidentState.CLOSED
        return track.misses < self._within(self._opens_after.get(track.kind, 1))

    def _within(self, needed: int) -> int:
        """Among how many of the latest polls so many claims must be."""
        return max(self._config.open_within, 2 * needed if needed > 2 else 0)


def _claim_of(incident: Incident) -> Finding:
    """What somebody must have claimed who opened this incident."""
    return Finding(
        incident.kind,
        incident.verdict,
        incident.severity,
        incident.confidence,
        incident.causes,
        incident.victims,
        advice=incident.advice,
        reason=incident.reason,
        anomaly_score=incident.anomaly_score,
    )
