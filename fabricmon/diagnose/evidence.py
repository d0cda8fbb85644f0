"""Makes a finding's evidence checkable by hand: where each number is from, and how it follows."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.diagnose.fabric.lossless import Lossless
from fabricmon.diagnose.raw import Proof, Raw, Series, breaks_lately, prove, prove_strays
from fabricmon.model.counters import BY_ID
from fabricmon.model.incident import RawCounter, Sample, Verdict, rfc3339
from fabricmon.model.readings import State
from fabricmon.model.topology import PortId
from fabricmon.model.window import SIGNALS

if TYPE_CHECKING:
    from fabricmon.diagnose.view import FabricView
    from fabricmon.model.frame import Odd
    from fabricmon.model.incident import Evidence, Finding

_AS_READ = "as read, in the source's own units"


def complete(finding: Finding, view: FabricView) -> Finding:
    """The finding with proofs, sources and its rows' largest detector score; no unknowns."""
    evidence: dict[tuple[str, str, str, str], Evidence] = {}
    telemetry = finding.verdict is Verdict.TELEMETRY
    for one in finding.evidence:
        key = one.counter, one.device, one.port, one.unit
        if isfinite(one.value) and key not in evidence:
            evidence[key] = _proved(one, view, telemetry=telemetry)
    rows = [row for row in finding.rows if 0 <= row < len(view.scores.anomaly)]
    scores = np.nan_to_num(view.scores.anomaly[rows])
    score = max(finding.anomaly_score, float(scores.max(initial=0.0)))
    return replace(finding, evidence=tuple(evidence.values()), anomaly_score=score)


def _proved(one: Evidence, view: FabricView, *, telemetry: bool) -> Evidence:
    """The evidence with the counters behind it, unless the rule gave them."""
    row = view.table.row(PortId(one.device, one.port)) if one.port else None
    if one.raw or row is None or row >= view.frame.n_ports:
        return one
    if one.counter in SIGNALS:
        proof = prove(one.counter, row, view)
    elif one.counter == "age_s":
        proof = _age(row, view)
    elif one.counter == "link_downed" and not telemetry:
        proof = breaks_lately(view, row)
    elif one.counter == "queue_tx_bytes":
        proof = prove_strays(row, Lossless(view).numbers, one.value, view)
    else:
        proof = (_odd(one.counter, row, view) if telemetry else None) or _latest(
            one.counter, row, view
        )
    if proof is None or not proof.raw:
        return one
    source = one.source or proof.raw[0].source or proof.raw[0].counter
    return replace(one, source=source, formula=proof.formula, raw=proof.raw)


def _latest(counter: str, row: int, view: FabricView) -> Proof | None:
    """A counter or level as this poll shows it."""
    if counter not in BY_ID:
        return None
    raw = Raw(view, row, polls=1)
    return Proof("the latest poll", raw.counters(raw.moved(raw.series(counter))))


def _age(row: int, view: FabricView) -> Proof | None:
    """The tick, less the last reading of anything of the port."""
    raw = Raw(view, row, polls=1)
    known = [raw.counter(Series(counter.id)) for counter in view.frame.counters]
    read = [counter for counter in known if counter.samples]
    if not read:
        return None
    last = max(read, key=lambda counter: counter.samples[-1].at_ns)
    only = replace(last, samples=last.samples[-1:])
    return Proof(f"the tick at {rfc3339(view.frame.time_ns)}, less the last sample", (only,))


def _odd(counter: str, row: int, view: FabricView) -> Proof | None:
    """A count that cannot have moved as it did, before and after."""
    origins = view.frame.origins
    for odd in origins.odd if origins is not None else ():
        at = np.flatnonzero(odd.rows == row)
        if len(at) and (odd.counter == counter or counter not in BY_ID):
            return Proof(_AS_READ, (_two_readings(odd, int(at[0]), row, view),))
    return None


def _two_readings(odd: Odd, at: int, row: int, view: FabricView) -> RawCounter:
    shown = Raw(view, row, polls=1).counter(Series(odd.counter, odd.queue))
    state = shown.samples[-1].state if shown.samples else State.MISSING.name.lower()
    times = [sample.at_ns for sample in shown.samples[-2:]] or [view.frame.time_ns]
    before = Sample(times[0], int(odd.before[at]))
    return replace(shown, samples=(before, Sample(times[-1], int(odd.after[at]), state=state)))
