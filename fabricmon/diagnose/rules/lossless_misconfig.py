"""PFC or ECN is set wrong somewhere, as the counters of both ends show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.diagnose.fabric.graph import SinkKind
from fabricmon.diagnose.fabric.groups import CROWD, single_destination
from fabricmon.diagnose.fabric.lossless import NO_WAIT, Lossless
from fabricmon.diagnose.fabric.settings import set_otherwise, settings
from fabricmon.model.incident import Cause, Evidence, Finding, IncidentKind, Severity, Verdict
from fabricmon.model.topology import Ecn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.fabric.graph import Sink
    from fabricmon.diagnose.view import FabricView

_MARKS_EXPECTED = 1e-3
"""Share of packets that a full queue marks at the very least, where marking is set in time."""
_MARKS_ELSEWHERE = 0.01
_PRESSURE = 0.1
"""Held time, in ports, from which a full port counts as congested."""
_BUSIER = 0.1
"""Rise in use from which a port that is not full may still be where a queue stands."""
_STRAY = 0.02
"""Share of bytes outside the lossless class that a fabric made for it does not exceed."""
_FEWEST = 0.25
"""Share of the ports in use that need not see what strays from one host, small as a fabric is."""
_UNHEARD = 0.05
"""Share of time that a port must have been asked to wait to be judged by whether it did."""
_SHOWN = 6
"""Ports shown as evidence."""


class LosslessMisconfig:
    """`reason` says what is set wrong."""

    kind: ClassVar[str] = IncidentKind.LOSSLESS_MISCONFIG
    signature: ClassVar[str] = (
        "pfc-off: a switch, or one port of it, drops lossless packets and never sends a pause. "
        "pfc-one-sided: a port is asked to pause and goes on sending, its peer drops. "
        "lossless-drops: drops in the "
        "lossless class although pauses work. ecn-silent, ecn-late: a full queue at a switch that "
        "marks nothing, or next to nothing, while others mark. global-pause: 802.3x pause where "
        "PFC is in use. wrong-priority: a host sends outside the lossless class of its job-mates. "
        "Where devices tell their settings, a port that is set otherwise than most (pfc-off) or "
        "than its peer (pfc-one-sided) is found before anything is lost."
    )
    discriminator: ClassVar[str] = (
        "Compared with the declared intent of the fabric and with what the neighbours do: a fabric "
        "that never marks, or that declares ECN off, is not reported for it."
    )
    advice: ClassVar[str] = (
        "Compare the QoS configuration of the named device with a healthy one of the same role: "
        "PFC enabled priorities on both ends, DSCP or PCP to priority map, ECN thresholds below "
        "the PFC threshold, headroom for the cable's length, trust mode."
    )
    limits: ClassVar[str] = (
        "Where devices do not tell their settings, wrong ones show only under load. ECN needs mark "
        "counters, wrong-priority needs counters per queue. Where discards are counted per port "
        "only, other classes count too. Where the port that drops is not read, a switch without "
        "PFC is told by the hosts that miss packets and a deaf port by its own counters; too "
        "little headroom, late marks and a wrong priority show only as the incast above them."
    )

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """At most one finding per device or port and reason."""
        lossless = Lossless(view)
        if not lossless.exists or view.table.infiniband.all():
            return ()
        dropping = [*self._dropping(view, lossless), *self._losing_unseen(view, lossless)]
        dropping += self._deaf_ports(view, lossless, {f.causes[0].device for f in dropping})
        return [
            *dropping,
            *self._set_otherwise(view, lossless, {f.causes[0].device for f in dropping}),
            *self._unmarked(view, lossless),
            *self._global_pause(view),
            *self._wrong_priority(view, lossless),
        ]

    def _dropping(self, view: FabricView, lossless: Lossless) -> Iterable[Finding]:
        """Drops in the lossless class: no pauses sent, pauses not heard, or too little headroom."""
        drops = lossless.by_device(lossless.drops)
        asked = lossless.by_device(lossless.asked)
        counted = lossless.by_device(np.isfinite(lossless.asked).astype(np.float32))
        for device in np.flatnonzero(drops > 0):
            rows = view.shape.rows_of(int(device))
            if counted[device] and asked[device] <= 0:
                cause = view.device_cause(int(device), 0.9)
                shown = _worst(rows, lossless.drops)
                yield self._dropped(view, lossless, "pfc-off", cause, shown, rows)
                continue
            deaf = self._deaf(view, lossless, rows)
            if deaf is not None:
                peer = int(view.shape.peer[deaf])
                shown = [deaf, *_worst(rows, lossless.drops)]
                cause = view.cause(peer, 0.85)
                finding = self._dropped(view, lossless, "pfc-one-sided", cause, shown, rows)
                stopped = view.evidence(peer, "stall", "as long as it was asked to pause")
                yield replace(finding, evidence=(*finding.evidence, stopped))
                continue
            shown = _worst(rows, lossless.drops)
            mute = lossless.mute(rows)
            if mute is not None:
                cause = view.cause(mute, 0.75)
                yield self._dropped(view, lossless, "pfc-off", cause, [mute, *shown], rows)
                continue
            # a drop where pauses are sent is not another class's: those do not pause
            asks = bool(lossless.asked[shown[0]] > 0)
            never = not asks and bool(lossless.ingress_drops[shown[0]] > 0)
            cause = view.cause(shown[0], 0.85 if asks else 0.7 if never else 0.6)
            reason = "pfc-off" if never else "lossless-drops"
            yield self._dropped(view, lossless, reason, cause, shown, rows)

    def _losing_unseen(self, view: FabricView, lossless: Lossless) -> Iterable[Finding]:
        """Devices that pause nobody while hosts behind their full ports miss packets."""
        missed = lossless.by_device(lossless.lost_unseen)
        asked = lossless.by_device(lossless.asked)
        counted = lossless.by_device(np.isfinite(lossless.asked).astype(np.float32))
        seen = lossless.by_device(lossless.drops)
        for device in np.flatnonzero((missed > 0) & (seen <= 0) & (counted > 0) & (asked <= 0)):
            rows = view.shape.rows_of(int(device))
            hosts = [int(view.shape.peer[row]) for row in _worst(rows, lossless.lost_unseen)]
            cause = view.device_cause(int(device), 0.75)
            finding = self._finding(view, "pfc-off", cause, [], rows)
            signals = (("resent", "0"), ("rx_use", "below 0.9, or its switch pauses"))
            proof = [view.evidence(host, name, well) for name, well in signals for host in hosts]
            silent = [int(row) for row in rows if np.isfinite(view.levels.now("tx_pause")[row])]
            pauses = [view.evidence(row, "tx_pause", "above 0") for row in silent[:_SHOWN]]
            yield replace(finding, evidence=(*proof, *pauses))

    def _deaf_ports(
        self, view: FabricView, lossless: Lossless, named: set[str]
    ) -> Iterable[Finding]:
        """Ports that send through the pauses of a peer whose drops nobody reads."""
        peers = view.shape.peer
        for row in np.flatnonzero(lossless.deaf & (peers >= 0) & lossless.drops_unread[peers]):
            if view.table.ids[row].device in named:
                continue
            floods = np.append(view.shape.rows_of(int(view.shape.beyond[row])), row)
            cause = view.cause(int(row), 0.8)
            finding = self._finding(view, "pfc-one-sided", cause, [], floods)
            signals = (
                ("rx_pause", "no more than it heeds"),
                ("stall", "above 0"),
                ("tx_use", "0 while paused"),
            )
            proof = tuple(view.evidence(int(row), name, well) for name, well in signals)
            yield replace(finding, severity=Severity.MILD, evidence=proof)

    def _dropped(
        self,
        view: FabricView,
        lossless: Lossless,
        reason: str,
        cause: Cause,
        shown: Sequence[int],
        rows: NDArray[np.intp],
    ) -> Finding:
        """With what the worst port is set to, where the device tells it."""
        finding = self._finding(view, reason, cause, shown, rows)
        told = settings(view, lossless.queues, shown[:1])
        return replace(finding, evidence=(*finding.evidence, *told))

    def _set_otherwise(
        self, view: FabricView, lossless: Lossless, named: set[str]
    ) -> Iterable[Finding]:
        """Ports of other devices than `named` whose settings are wrong, before anything is lost."""
        for reason, row in set_otherwise(view):
            if view.table.ids[row].device in named:
                continue
            finding = self._finding(view, reason, view.cause(row, 0.8), [row], np.array([row]))
            proof = settings(view, lossless.queues, [row, *view.shape.peer[[row]]])
            yield replace(finding, severity=Severity.MILD, evidence=proof)

    @staticmethod
    def _deaf(view: FabricView, lossless: Lossless, rows: NDArray[np.intp]) -> int | None:
        """The port of this device whose peer was asked to pause and did not.

        Where nobody measures the time a port was paused, an overrun has to do as the sign of it;
        a peer that did pause was asked too late, which is a matter of headroom.
        """
        peers = view.shape.peer[rows]
        rows, peers = rows[peers >= 0], peers[peers >= 0]
        asked = lossless.asked_share[rows] >= _UNHEARD
        paused = view.stall[peers]
        measured = ~view.frame.ratios.estimated[peers] & np.isfinite(paused)
        # however short the pauses are, who heeds them waits
        unheard = measured & (paused <= NO_WAIT * lossless.asked_share[rows])
        unheard |= measured & lossless.deaf[peers]
        overrun = lossless.ingress_drops[rows] > view.config.loss * lossless.packets[rows]
        suspects = rows[asked & (unheard | (overrun & ~measured))]
        if not len(suspects):
            return None
        weight = lossless.asked_share[suspects] * np.nan_to_num(view.levels.now("rx_use")[suspects])
        return int(suspects[np.argmax(weight + lossless.ingress_drops[suspects])])

    def _unmarked(self, view: FabricView, lossless: Lossless) -> Iterable[Finding]:
        """Full queues at a device that does not mark while others do."""
        if view.intent.ecn is Ecn.OFF:
            return
        share = np.nan_to_num(view.levels.now("ecn")) / np.fmax(
            np.nan_to_num(view.frame.rate_of("tx_packets")), 1.0
        )
        marks_known = np.isfinite(view.levels.now("ecn"))
        wanted = view.intent.ecn is Ecn.REQUIRED
        for sink in view.sinks:
            for row in _full_ports(view, sink):
                if not marks_known[row] or share[row] >= _MARKS_EXPECTED:
                    continue
                if not _must_queue(view, row, share):
                    continue
                others = marks_known & (view.shape.node != view.shape.node[row])
                if wanted or (share[others] >= _MARKS_ELSEWHERE).any():
                    finding = self._ecn_finding(view, sink, row)
                    told = settings(view, lossless.queues, [row])
                    yield replace(finding, evidence=(*finding.evidence, *told))

    def _ecn_finding(self, view: FabricView, sink: Sink, row: int) -> Finding:
        device = int(view.shape.node[row])
        own = view.shape.rows_of(device)
        silent = not np.nan_to_num(view.levels.now("ecn")[own]).any()
        return Finding(
            IncidentKind.LOSSLESS_MISCONFIG,
            Verdict.CONFIG,
            Severity.MILD,
            0.85,
            (view.device_cause(device, 0.85),),
            view.victims(sink.victims),
            (
                view.evidence(row, "ecn", "at least one mark per thousand packets"),
                view.evidence(row, "tx_use", "below 0.9"),
                view.evidence(row, "depth"),
                *view.tree(sink.victims),
            ),
            self.advice,
            "ecn-silent" if silent else "ecn-late",
            rows=tuple(dict.fromkeys((row, sink.row, *map(int, sink.victims)))),
        )

    def _global_pause(self, view: FabricView) -> Iterable[Finding]:
        """802.3x pause on some ports of a fabric that uses PFC."""
        sent = np.nan_to_num(view.frame.rate_of("tx_pause_frames"))
        got = np.nan_to_num(view.shape.at_peer(view.frame.rate_of("rx_pause_frames")))
        speaks = np.flatnonzero((sent > 0) | (got > 0))
        there = view.shape.peer[speaks]
        speaks = speaks[~np.isin(there, speaks) | (there > speaks)]  # a cable is told once
        if not len(speaks) or len(speaks) > view.frame.n_ports // 4:
            return
        for row in speaks[:16]:
            cause = view.cause(int(row), 0.85)
            ends = np.array([row, view.shape.peer[row]], np.intp)  # either may be held by them
            yield self._finding(view, "global-pause", cause, [int(row)], ends[ends >= 0])

    def _wrong_priority(self, view: FabricView, lossless: Lossless) -> Iterable[Finding]:
        """A host that sends outside the lossless class although the others do not."""
        by_queue = view.frame.queue_rate_of("queue_tx_bytes")
        if not by_queue.size or np.isnan(by_queue).all():
            return
        whole = np.nansum(by_queue, axis=1)
        outside = 1 - np.nansum(by_queue[:, lossless.queues], axis=1) / np.fmax(whole, 1.0)
        used = whole * 8 > 0.03 * view.table.speed_bps
        if not used.any() or float(np.quantile(outside[used], _FEWEST)) > _STRAY:
            return  # this fabric sends other classes all the time
        rows = self._strays(view, lossless, used, outside)
        if rows is not None:
            cause = view.cause(int(rows[0]), 0.85)
            shown = [int(row) for row in rows[:_SHOWN]]
            crossed = [sink.row for sink in view.sinks if outside[sink.row] > _STRAY]
            rows = np.array(list(dict.fromkeys((*rows.tolist(), *crossed))), np.intp)
            finding = self._finding(view, "wrong-priority", cause, shown, rows)
            seen = [row for row in shown if outside[row] > _STRAY and whole[row] > 0]
            strays = tuple(_stray(view, row, outside) for row in seen)
            yield replace(finding, evidence=strays + finding.evidence)

    @staticmethod
    def _strays(
        view: FabricView,
        lossless: Lossless,
        used: NDArray[np.bool_],
        outside: NDArray[np.float64],
    ) -> NDArray[np.intp] | None:
        """The host port first, then where its packets show; None where nothing is wrong.

        A host that counts per queue shows it itself. Otherwise the switches drop in another class,
        and the host is the one that has to send again.
        """
        own = np.flatnonzero(used & view.shape.host_port & (outside > 0.5))
        if len(own):
            return own[np.argsort(-outside[own], kind="stable")]
        dropped = view.frame.queue_rate_of("queue_discards")
        if not dropped.size:
            return None
        stray = np.nansum(dropped[:, ~lossless.queues], axis=1)
        shows = np.flatnonzero((stray > view.config.loss * lossless.packets) & (outside > _STRAY))
        again = np.where(view.shape.host_port, np.nan_to_num(view.levels.now("resent")), 0)
        if not len(shows) or not (again > 0).any():
            return None
        host = int(np.argmax(again))
        return np.array([host, *shows[np.argsort(-stray[shows], kind="stable")]], np.intp)

    def _finding(
        self,
        view: FabricView,
        reason: str,
        cause: Cause,
        shown: Iterable[int],
        rows: NDArray[np.intp],
    ) -> Finding:
        """A claim about `rows`, proved by what `shown` ports count, the most telling first."""
        evidence = [
            view.evidence(row, signal, expected)
            for signal, expected in _EVIDENCE[reason]
            for row in dict.fromkeys(shown)
        ]
        victims = np.unique(np.concatenate([view.behind(int(r)) for r in rows]))
        return Finding(
            IncidentKind.LOSSLESS_MISCONFIG,
            Verdict.CONFIG,
            Severity.MODERATE,
            cause.confidence,
            (cause,),
            view.victims(victims),
            tuple(evidence),
            self.advice,
            reason,
            rows=(*map(int, rows), *map(int, np.setdiff1d(victims, rows))),
        )


def _worst(rows: NDArray[np.intp], drops: NDArray[np.float32]) -> list[int]:
    """Rows that drop, the most first."""
    worst = rows[np.argsort(-drops[rows], kind="stable")][:_SHOWN]
    return [int(row) for row in worst if drops[row] > 0]


def _stray(view: FabricView, row: int, outside: NDArray[np.float64]) -> Evidence:
    port, unit = view.table.ids[row], "share outside the lossless class"
    share = float(outside[row])
    return Evidence("queue_tx_bytes", port.device, port.port, share, unit, "0, as its peers")


def _must_queue(view: FabricView, row: int, share: NDArray[np.float64]) -> bool:
    """Whether it is this port's queue that stands: full, or busier than usual where none marks."""
    if view.use[row] >= view.config.busy:
        return True
    own = view.shape.rows_of(int(view.shape.node[row]))
    marks = bool((share[own] >= _MARKS_ELSEWHERE).any())
    return bool(view.use[row] - view.usual_use[row] >= _BUSIER) and not marks


def _full_ports(view: FabricView, sink: Sink) -> list[int]:
    """Ports of this end of pressure whose queue must be standing, and so must be marked."""
    if sink.kind is not SinkKind.BUSY or sink.mass < _PRESSURE:
        return []
    standing = view.use[sink.row] >= view.config.busy or view.queue[sink.row] >= 0.5
    standing |= sink.mass >= CROWD  # what makes so many wait is above the marking threshold
    rows = [sink.row] if standing else []
    onward = single_destination(view, np.array([sink.row]))
    if onward is not None and view.queue[onward] >= 0.5:
        rows.append(onward)
    return rows


_NO_DROPS = ("drops", "0 in the lossless class")
_EVIDENCE = {
    "pfc-off": (_NO_DROPS, ("tx_pause", "above 0 before it drops")),
    "pfc-one-sided": (_NO_DROPS, ("tx_pause", "")),
    "lossless-drops": (_NO_DROPS, ("tx_pause", ""), ("rx_pause", "")),
    "global-pause": (("tx_pause", "0 global pauses: this fabric uses PFC"),),
    "wrong-priority": (("drops", "0"), ("resent", "0")),
}
"""What is shown of the ports of a claim: signals, and what a healthy port shows."""

RULE = LosslessMisconfig
