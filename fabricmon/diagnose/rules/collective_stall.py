"""A job waits for one of its own hosts, and the fabric has nothing to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.past.levels import known_mean
from fabricmon.diagnose.past.pace import SLOWER, SPAN
from fabricmon.diagnose.raw import sent_lately
from fabricmon.model.incident import Cause, Evidence, Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.past.pace import Lag
    from fabricmon.diagnose.view import FabricView

_BEHIND = 0.03
"""Smallest lag, in units of what a host usually sends in a poll."""


_FAR_SLOWER = 0.6
"""Share of its usual traffic from which a job is slow beyond what a new phase explains: each
iteration takes two thirds longer."""
_STOPPED = 0.1
"""Below this a job has ended or pauses; who starts it again first, or last, says nothing."""
_GOES_ON = 0.2
"""What flows below this at the hosts of a job, all alike, need not be its own."""
_ALSO_SLOWER = 0.85
"""Two jobs below this share: something changed for both, and no host of one is the reason."""
_EVEN = 0.35
"""Spread of the pace between hosts, as a share of it, at the most."""
_CLOSE = 0.85
"""A host that lags by this share of what the first lags may be the late one as well."""
_PART = 0.1
"""What a rank of a ring sends at once, in polls of usual traffic, at the most."""
_ALONE, _ALONE_PACE = 3.0, 0.8
"""A host so many times further behind than the next one, in a job that slow, needs no past; and so
many times further than ever before it needs no distance to the next: in a ring, those after a late
rank have sent only a part or two more when they wait as well."""


class CollectiveStall:
    """All hosts of a job send less together, one of them always last, no port held back."""

    kind: ClassVar[str] = IncidentKind.COLLECTIVE_STALL
    signature: ClassVar[str] = (
        "The traffic of all hosts of a job falls together, none of its ports is held back, drops "
        "or errs, and one host sends after all the others, iteration after iteration; or, where "
        "polls are too long to see who is last, all hosts alike send three fifths of what is usual "
        "at the most."
    )
    discriminator: ClassVar[str] = (
        "No pause, no waiting, no loss: not the fabric. A job that computes somewhat longer falls "
        "in step, with no host behind the others, and is not reported; nor is one that fills a "
        "card."
    )
    advice: ClassVar[str] = (
        "Look at the named host: throttled or failing GPU, slow storage or data loader, a busy "
        "neighbour process, swapping. Without a name, poll at most a third of an iteration apart."
    )
    limits: ClassVar[str] = (
        "Needs the map from hosts to jobs. The host is named only where polls are short enough to "
        "see who sends last; without a name, a new phase with far longer iterations looks the "
        "same. In a ring, those after the late host lag nearly as much: several are named then. "
        "Jobs of fewer than four hosts are not judged."
    )

    opens_after: ClassVar[int] = 3

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per job that waits for a host."""
        found: list[Finding] = []
        if sum(lag.pace < _ALSO_SLOWER for lag in view.lags.values()) > 1:
            return found
        for name, lag in view.lags.items():
            stalls = self._far_slower(lag)
            late = self._last(lag, sure=stalls)
            if (late or stalls) and not self._troubled(view, lag, late):
                found.append(self._finding(view, name, lag, late))
        return found

    @staticmethod
    def _far_slower(lag: Lag) -> bool:
        """Whether the job is far slower, all hosts alike, for a while.

        A job that stops or starts passes through such a pace within a few polls. What little goes
        on at the hosts of one that stopped is not alike.
        """
        low, high = lag.lasting
        even = lag.even < _EVEN * min(high, lag.pace)
        return min(low, lag.least) > _GOES_ON and high < _FAR_SLOWER and even

    @staticmethod
    def _last(lag: Lag, *, sure: bool) -> list[int]:
        """Position of the host that clearly lags behind all others, more than ever before.

        Of several that lag about as much, all. `sure`: the job stalls beyond doubt, and only the
        name is asked for.
        """
        if len(lag.rows) < 4 or lag.pace > SLOWER or _stopped(lag):
            return []
        margin, beyond = (1.15, 1.15) if sure else (2.0, 2.0)
        known = np.fmax(lag.past, _BEHIND / margin)
        against = lag.lag / known if sure else lag.lag  # ranks of a tree differ in what is usual
        order = np.argsort(-np.round(against, 2), kind="stable")  # as good as equal: always one
        late, next_ = int(order[0]), int(order[1])
        clear = against[late] > margin * against[next_] and lag.lag[late] > beyond * known[late]
        clear &= lag.lag[late] >= np.median(lag.lag)
        alone = lag.pace < _ALONE_PACE and lag.lag[late] > _ALONE * max(lag.lag[next_], _BEHIND)
        far = lag.pace < _ALONE_PACE and lag.lag[late] > _ALONE * max(known[late], _PART)
        far &= lag.span == SPAN  # polls of whole iterations never showed in which order ranks send
        if clear or alone:
            return [late]
        return [int(n) for n in order if lag.lag[n] >= _CLOSE * lag.lag[late]] if far else []

    @staticmethod
    def _troubled(view: FabricView, lag: Lag, late: list[int]) -> bool:
        """Whether the fabric held back or lost at the job's hosts or their switches of late.

        As far back as lag and pace look when the job became slower: what a fault did to them
        outlives it by so long, and what it still does to the job becomes usual. Where a host is
        known to be late, a queue that forms when all go on is no trouble of the fabric.
        A job that fills a card waits for the card; and one whose ports wait more than they usually
        do of late waits for them, though not more than ever: another job came back.
        """
        shape = view.shape
        peers = shape.peer[lag.cards]
        near = np.zeros(len(shape.is_host), np.bool_)
        near[shape.node[lag.cards]] = True
        near[shape.node[peers[peers >= 0]]] = True
        full = view.level("tx_use_long") >= view.config.busy
        if full[lag.cards].any() or any(np.isin(lag.cards, u.full).any() for u in view.uneven):
            return True
        bad = (view.held > 0) | (view.memory.trouble > view.window.ticks - SPAN - lag.slow_for)
        waits = known_mean(view.polls("stall", SPAN)) - view.level("stall", "usual")
        bad |= waits >= view.config.stall
        own = np.isin(shape.beyond, shape.node[lag.cards])
        queues = shape.faces_host & (view.held <= 0) & ~own  # before others: who waits for it shows
        if late:
            queues |= _only_queues(view)
        bad &= ~queues
        return bool(near[shape.node[bad]].any())

    def _finding(self, view: FabricView, job: str, lag: Lag, late: list[int]) -> Finding:
        first = late[0] if late else 0
        row = int(lag.rows[first])
        evidence = [_pace_shown(view, job, lag, first)]
        causes: tuple[Cause, ...] = ()
        sure = 0.8 if len(late) == 1 else 0.5
        if late:
            named = late[: view.config.max_causes]
            causes = tuple(view.cause(int(lag.rows[n]), sure) for n in named)
            evidence += [_lag_shown(view, lag, n) for n in named]
        return Finding(
            IncidentKind.COLLECTIVE_STALL,
            Verdict.NOT_FABRIC,
            Severity.MODERATE if lag.pace < 0.9 else Severity.MILD,
            sure,
            causes,
            (),
            tuple(evidence),
            self.advice,
            reason=job,
            rows=tuple(dict.fromkeys((row, *map(int, lag.rows)))),
        )


def _only_queues(view: FabricView) -> NDArray[np.bool_]:
    """bool[N]: ports towards hosts that queue now and then, hold nobody back, and lose nothing.

    They carry less than usual, as the job does, and yet not evenly, as a slow receiver would: what
    waits for a late host is sent all at once.
    """
    lost = np.zeros(view.frame.n_ports, np.bool_)
    for name in ("drops", "errors"):
        lost |= (np.nan_to_num(view.window.past(name, SPAN)) > 0).any(axis=0)
    waited = (np.nan_to_num(view.polls("stall", SPAN)) >= view.config.stall).any(axis=0)
    less = view.level("tx_use_long") < SLOWER * view.usual_use
    found: NDArray[np.bool_] = view.shape.faces_host & less & ~waited & ~lost & ~view.plateau
    return found


def _stopped(lag: Lag) -> bool:
    """Whether the job stood still for long, or does now: a host that is late lets it go on.

    What others send from the hosts of a job that stopped is not alike.
    """
    together = np.median(lag.shares[-SPAN // 2 :, lag.usual > 0], axis=1)
    low = lag.lasting[0]
    others = low < _GOES_ON and lag.even >= _EVEN * low
    return lag.least < _STOPPED or others or bool((together < _STOPPED).all())


def _pace_shown(view: FabricView, job: str, lag: Lag, host: int) -> Evidence:
    """The job's pace, with each host's share, and the counters of one of them."""
    works = lag.usual > 0
    shares = lag.shares[-lag.span :, works].mean(axis=0)
    own = float(lag.shares[-lag.span :, host].mean())
    formula = (
        f"median of the hosts' shares ({_listed(shares)}), each weighed by what it usually sends "
        f"({_listed(lag.usual[works])}): mean use of the last {lag.span} polls over the usual; "
        f"here {own * lag.usual[host]:.4g} / {lag.usual[host]:.4g}"
    )
    usual = f"1; of late at most {lag.lasting[1]:.3g} over {lag.lasts} polls"
    return _shown("pace", lag.pace, f"share of usual, job {job}", usual, formula, view, lag, host)


def _lag_shown(view: FabricView, lag: Lag, host: int) -> Evidence:
    """How far one host fell behind, with the path of the job and of the host."""
    together = np.median(lag.shares[:, lag.usual > 0], axis=1)
    formula = (
        f"the job ({_listed(together)}) less this host ({_listed(lag.shares[:, host])}), shares of "
        f"usual (here {lag.usual[host]:.4g} of the link), added up poll by poll: the most that a "
        "sum rises above one before it or 0, or, if that is less, their spread about the "
        "straight line from first to last: the second largest less the second smallest"
    )
    past = f"a spread of at most {lag.past[host]:.3g} before"
    unit = "polls of usual traffic"
    return _shown("lag", float(lag.lag[host]), unit, past, formula, view, lag, host)


def _listed(values: NDArray[np.float64]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def _shown(
    name: str,
    value: float,
    unit: str,
    expected: str,
    formula: str,
    view: FabricView,
    lag: Lag,
    host: int,
) -> Evidence:
    port = view.table.ids[int(lag.rows[host])]
    cards = lag.cards[view.shape.node[lag.cards] == view.shape.node[lag.rows[host]]]
    raw = tuple(sent_lately(view, int(card), len(lag.shares)) for card in cards)
    source = raw[0].source
    return Evidence(name, port.device, port.port, value, unit, expected, source, formula, raw)


RULE = CollectiveStall
