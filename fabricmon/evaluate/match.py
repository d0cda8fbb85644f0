"""Which alarm answers which fault. Event-wise: a fault is found once, or it is missed.

Alarms on the same or on linked ports that follow each other within three polls are one event. An
event that overlaps a fault's time (plus eight polls) is a true positive whatever its kind; further
ones in the same fault are fragments; the rest are false positives. Telemetry kinds and a fault's
trigger are neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fabricmon.evaluate.watch import Observed, Run
    from fabricmon.formats.interchange import Label
    from fabricmon.model.topology import PortId

MERGE_POLLS = 3
GRACE_POLLS = 8


class Cables:
    """Which port is at the other end."""

    def __init__(self, run: Run) -> None:
        """From the run's topology."""
        self._peer: dict[PortId, PortId] = {}
        for link in run.topology.links:
            self._peer[link.a], self._peer[link.b] = link.b, link.a

    def same(self, a: PortId, b: PortId) -> bool:
        """The same port, the two ends of one cable, or a port and its whole device."""
        if not a.port or not b.port:
            return a.device == b.device
        return a == b or self._peer.get(a) == b

    def right(self, named: PortId, label: Label) -> bool:
        """Whether `named` is a cause of the fault."""
        return any(self._is_cause(named, cause) for cause in label.causes)

    def _is_cause(self, named: PortId, cause: PortId) -> bool:
        if not cause.port:
            peer = self._peer.get(named)
            return cause.device in {named.device, peer.device if peer else ""}
        return bool(named.port) and self.same(named, cause)


@dataclass(slots=True)
class Answer:
    """What was said of one fault. `judged` is the first event in the product's own order."""

    label: Label
    events: list[Observed] = field(default_factory=list)

    @property
    def judged(self) -> Observed | None:
        """The event whose kind, cause and victims are judged."""
        return min(self.events, key=lambda event: event.order, default=None)

    @property
    def opened_ns(self) -> int | None:
        """When the fault was first told."""
        return min((event.opened_ns for event in self.events), default=None)


@dataclass(frozen=True, slots=True)
class Matched:
    """The books of one run."""

    answers: tuple[Answer, ...]
    false: tuple[Observed, ...]
    cables: Cables

    @property
    def fragments(self) -> int:
        """Events beyond the first of each fault."""
        return sum(max(0, len(answer.events) - 1) for answer in self.answers)


def merged(observed: Iterable[Observed], run: Run, cables: Cables) -> list[Observed]:
    """Alarms joined into events; the first in the product's order lends kind, cause and victims."""
    gap = MERGE_POLLS * run.poll_ns
    events: list[Observed] = []
    for alarm in sorted(observed, key=lambda o: o.opened_ns):
        for place, event in enumerate(events):
            near = alarm.opened_ns <= event.end_ns + gap
            if near and _linked(alarm, event, cables):
                events[place] = _joined(event, alarm)
                break
        else:
            events.append(alarm)
    return events


def _linked(a: Observed, b: Observed, cables: Cables) -> bool:
    if a.causes and b.causes:
        return cables.same(a.causes[0], b.causes[0])
    return bool(a.victims & b.victims) or (not a.causes and not b.causes)


def _joined(a: Observed, b: Observed) -> Observed:
    first = min(a, b, key=lambda o: o.order)
    return replace(
        first,
        start_ns=min(a.start_ns, b.start_ns),
        opened_ns=min(a.opened_ns, b.opened_ns),
        end_ns=max(a.end_ns, b.end_ns),
        victims=a.victims | b.victims,
    )


def match(run: Run, observed: Sequence[Observed] | None = None) -> Matched:
    """Give every event to the fault it answers best, or to none."""
    cables = Cables(run)
    alarms = run.observed if observed is None else observed
    asked = {label.kind for label in run.labels}  # telemetry counts only where it is the fault
    told = (o for o in alarms if not o.telemetry or o.kind in asked)
    events = merged(told, run, cables)
    answers = [Answer(label) for label in run.labels]
    false = []
    for event in sorted(events, key=lambda e: e.order):
        during = [a for a in answers if _overlaps(event, a.label, run)]
        if event.telemetry:
            during = [a for a in during if a.label.kind == event.kind]
        elif not during:
            false.append(event)
        open_to = [a for a in during if event.kind != a.label.trigger]
        if open_to:
            best = max(open_to, key=lambda a: _fit(event, a, cables))
            best.events.append(event)
    return Matched(tuple(answers), tuple(false), cables)


def _overlaps(event: Observed, label: Label, run: Run) -> bool:
    until = label.end_ns + GRACE_POLLS * run.poll_ns
    return event.opened_ns <= until and event.end_ns >= label.start_ns


def _fit(event: Observed, answer: Answer, cables: Cables) -> tuple[bool, bool, bool]:
    label = answer.label
    named = bool(event.causes) and cables.right(event.causes[0], label)
    kind = event.kind == label.kind or event.kind in label.accept
    return named, kind, not answer.events
