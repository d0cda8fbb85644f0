"""One epoch: nothing is switched on or off, so everything runs at steady rates.

Two steady states are solved and mixed by time: the one before congestion control has converged
(back-pressure alone) and the one after (fair shares, standing queues, no pauses). How much of the
first there is depends on how long bursts last against the time to converge, and on whether the
switch that is the bottleneck marks at all. InfiniBand without congestion control, and RoCE that
relies on PFC alone, live in the first state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.simulate.engine.coupling import SLACK, Coupling
from fabricmon.simulate.engine.deadlock import waiting_cycles
from fabricmon.simulate.engine.fair import fair_shares
from fabricmon.simulate.engine.flows import total_by
from fabricmon.simulate.engine.pressure import OVERSHOOT, BackPressure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fabricmon.simulate.engine.conditions import Conditions
    from fabricmon.simulate.engine.flows import Network
    from fabricmon.simulate.engine.pressure import Pressed
    from fabricmon.simulate.fabric.wiring import Wiring

_ROCE_BUFFER, _IB_BUFFER = 500e3, 100e3
"""Bytes at which an ingress of a 100 Gb/s port is paused, or out of credits."""


def buffers(wiring: Wiring) -> NDArray[np.float64]:
    """float64[E]: bytes the far end of each link takes in before it stops the link.

    Faster ports are given more, but not in proportion: memory did not grow as links did.
    """
    base = _IB_BUFFER if wiring.infiniband else _ROCE_BUFFER
    return base * np.sqrt(wiring.capacity / 100e9)


RESENT_PER_LOSS = 8
"""Go-back-N: packets sent again for each one lost."""

_SLOWED_PER_LOSS = 500
"""How hard senders slow down for loss: rate is divided by 1 + this x the loss probability."""

_HELD = 0.985
"""A pair that gets less than this share of what it presses for is held back."""


_ALL = 0.999
_AT_CARD = 0.5
"""Congestion control keeps part of a sender's backlog in its queue pairs, off the paused card."""


@dataclass(frozen=True, slots=True, eq=False)
class Epoch:
    """Steady rates.

    rate      float64[F]  bit/s sent by each flow
    sent      float64[E]  bit/s leaving by each link
    progress  float64[G]  share of full speed at which each group advances
    stall     float64[E]  share of time the egress had data and was held back
    pressed   float64[E]  share of time the egress stands under unconverged back-pressure
    full      float64[E]  share of time the egress is itself the bottleneck
    settled   float64[E]  share of time it is a bottleneck under converged congestion control
    limited   bool[E]     the bottleneck is the far end, not the link
    dropped   float64[P]  bit/s lost at the switch of each pair
    stuck     bool[E]     links in a deadlock
    """

    rate: NDArray[np.float64]
    sent: NDArray[np.float64]
    progress: NDArray[np.float64]
    stall: NDArray[np.float64]
    pressed: NDArray[np.float64]
    full: NDArray[np.float64]
    settled: NDArray[np.float64]
    limited: NDArray[np.bool_]
    dropped: NDArray[np.float64]
    stuck: NDArray[np.bool_]


class EpochSolver:
    """Solves epochs of one set of flows under one set of conditions."""

    def __init__(self, wiring: Wiring, conditions: Conditions, network: Network) -> None:
        """Conditions are read once; make a new solver when they change."""
        self._wiring = wiring
        self._conditions = conditions
        self._net = network
        self._line = wiring.capacity * conditions.speed * conditions.hidden * conditions.up
        self._line[conditions.stuck] = 0.0
        self._capacity = self._line * conditions.takes
        self._limited = conditions.takes < 1
        self._buffers = buffers(wiring)
        self._deaf = self._find_deaf()
        self._groups = int(network.flows.group.max(initial=-1)) + 1
        self._loss = self._path_loss()
        self._solver = BackPressure(network, self._capacity, self._deaf)

    def _find_deaf(self) -> NDArray[np.bool_]:
        """bool[P]: pairs whose ingress is not stopped by a full switch."""
        net, conditions, wiring = self._net, self._conditions, self._wiring
        ingress = net.pair_ingress
        link = np.minimum(ingress, len(wiring) - 1)
        deaf = conditions.deaf[link] | conditions.mute[wiring.target[link]]
        return (ingress < len(wiring)) & (deaf | ~net.pair_lossless)

    def _path_loss(self) -> NDArray[np.float64]:
        """float64[F]: probability that a packet of a flow is damaged on its way."""
        net = self._net
        if not self._conditions.loss.any() or not len(net.flows):
            return np.zeros(len(net.flows))
        kept = np.log1p(-self._conditions.loss)[net.hop_link]
        return 1 - np.exp(np.add.reduceat(kept, net.first))

    def solve(self, on: NDArray[np.bool_], rounds: int = 40) -> Epoch:
        """The epoch in which the groups `on[G]` send. `rounds` applies to a cold start."""
        net = self._net
        want = (
            np.where(on[net.flows.group], net.flows.demand, 0.0) if len(net.flows) else np.empty(0)
        )
        demand = want / (1 + _SLOWED_PER_LOSS * self._loss)
        coupling = Coupling(net, self._capacity, want, demand)
        if (net.load(demand) <= self._capacity * (1 + 1e-9)).all():
            return self._free(want, coupling.in_step(demand))
        pressed = self._press(coupling, demand, rounds)
        tag, decay = self._spread(pressed)
        if tag.max(initial=0.0) >= 1 and tag[pressed.full].min(initial=1.0) >= 1:
            settled = pressed.rate
        else:
            settled = self._settle(coupling, demand)
        return self._mix(want, coupling, pressed, settled, tag, decay)

    def _free(self, want: NDArray[np.float64], rate: NDArray[np.float64]) -> Epoch:
        """Nothing is in anybody's way."""
        e = self._net.n_links
        zero = np.zeros(e)
        sent, dropped = self._carry(rate, np.zeros(len(self._net.pair_link)))
        return Epoch(
            rate,
            sent,
            self._progress(want, rate, np.zeros(len(rate))),
            zero,
            zero,
            zero,
            zero,
            self._limited,
            dropped,
            self._conditions.stuck,
        )

    def _press(self, coupling: Coupling, demand: NDArray[np.float64], rounds: int) -> Pressed:
        """Back-pressure alone."""
        pressed = self._solver.solve(demand, rounds=rounds)
        if not coupling.any:
            return pressed
        pace = coupling.free_pace(pressed.rate)
        again = max(8, rounds // 2)
        ask = coupling.ask(pace, SLACK)
        pressed = self._solver.solve(ask, np.maximum(pressed.rate, ask / SLACK), again)
        behind = coupling.held_up(pace, pressed.rate)
        if behind is None:
            return pressed
        return self._solver.solve(coupling.ask(behind, SLACK), pressed.rate, again)

    def _settle(self, coupling: Coupling, demand: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[F]: congestion control has converged."""
        rate = fair_shares(self._net, demand, self._capacity)
        if not coupling.any:
            return coupling.in_step(rate)
        ask = coupling.ask(coupling.free_pace(rate))
        return coupling.in_step(fair_shares(self._net, ask, self._capacity))

    def _spread(self, pressed: Pressed) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How far pressure reaches up from each bottleneck.

        tag[E]: share of time the bottleneck behind a link is not under congestion control.
        decay[E]: share of that time the backlog reaches up to here. A collective has only so many
        bytes in flight, and every switch on the way swallows a buffer of them before it pauses.
        """
        net = self._net
        tag, decay = np.zeros(net.n_links), np.zeros(net.n_links)
        roots = np.flatnonzero(pressed.full)
        tag[roots] = self._unconverged(roots, pressed)
        decay[roots] = 1.0
        stuck = self._conditions.stuck
        tag[stuck] = decay[stuck] = 1.0
        held = (pressed.ratio < _HELD) & (net.pair_ingress < net.n_links) & ~self._deaf
        in_flight = total_by(net.hop_pair, net.flows.window[net.hop_flow], len(net.pair_link))
        if stuck.any():
            in_flight[:] = np.inf  # what never drains fills every buffer in the end
        for _ in range(3 if net.cyclic else 1):
            for links in net.levels:
                chosen, _ = net.pairs_of(links[decay[links] > 0])
                chosen = chosen[held[chosen]]
                ingress, egress = net.pair_ingress[chosen], net.pair_link[chosen]
                reach = decay[egress] - self._buffers[ingress] / np.maximum(in_flight[chosen], 1.0)
                np.maximum.at(decay, ingress, np.maximum(reach, 0.0))
                np.maximum.at(tag, ingress, tag[egress])
        return tag, decay

    def _unconverged(self, roots: NDArray[np.intp], pressed: Pressed) -> NDArray[np.float64]:
        """float64[R]: share of time congestion control has no hold of each bottleneck."""
        net = self._net
        weight = pressed.rate + 1.0
        loose = net.load(weight * net.flows.uncontrolled)[roots] / net.load(weight)[roots]
        marking = self._conditions.marking[self._wiring.source[roots]]
        smooth = 1 - self._conditions.rough[roots]
        result: NDArray[np.float64] = 1 - (1 - loose) * marking * smooth
        return result

    def _mix(
        self,
        want: NDArray[np.float64],
        coupling: Coupling,
        pressed: Pressed,
        settled: NDArray[np.float64],
        tag: NDArray[np.float64],
        decay: NDArray[np.float64],
    ) -> Epoch:
        net = self._net
        reach = tag * decay  # a flow that only stands behind the backlog waits while it is there
        share = np.maximum.reduceat(reach[net.hop_link], net.first)
        rate = coupling.in_step(share * pressed.rate + (1 - share) * settled)
        lossy = self._deaf & (pressed.ratio < _HELD)
        lost = np.where(lossy, OVERSHOOT / (1 + OVERSHOOT), 0.0)
        sent, _ = self._carry(rate, lost)
        fits = np.minimum(1, self._capacity / np.maximum(sent, 1.0))
        rate = rate * np.minimum.reduceat(fits[net.hop_link], net.first)
        sent, dropped = self._carry(rate, lost)
        line = np.maximum(self._line, 1.0)
        idle = np.clip(1 - net.load(pressed.rate) / line, 0.0, 1.0)
        held = (pressed.slow < _HELD) & ~pressed.full
        paced = (self._wiring.tier[self._wiring.source] == 0) & (tag < _ALL)
        reach = np.where(paced, _AT_CARD * reach, reach)
        stall = np.where(held, reach * idle, 0.0)
        busy = net.load(settled) >= self._capacity * 0.97
        busy |= pressed.full
        at_host = self._limited & busy
        stall = np.where(at_host, self._conditions.shows * np.clip(1 - sent / line, 0, 1), stall)
        stuck = self._conditions.stuck | waiting_cycles(net, pressed)
        full = np.where(pressed.full, tag, 0.0)
        return Epoch(
            rate,
            sent,
            self._progress(want, rate, self._lost_on_way(lost)),
            np.where(self._conditions.stuck, 1.0, stall),
            np.where(held, reach, 0.0),
            full,
            np.where(busy, 1 - full, 0.0),
            self._limited,
            dropped,
            stuck,
        )

    def _lost_on_way(self, lost: NDArray[np.float64]) -> NDArray[np.float64]:
        net = self._net
        kept = np.log1p(-lost)[net.hop_pair]
        return 1 - np.exp(np.add.reduceat(kept, net.first))

    def _carry(
        self, rate: NDArray[np.float64], lost: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What leaves by each link, bit/s, and what each pair drops, bit/s."""
        net = self._net
        if not lost.any():
            return net.load(rate), lost
        kept = np.log1p(-lost)[net.hop_pair]
        along = np.cumsum(kept)
        upto = along - (along[net.first] - kept[net.first])[net.hop_flow]
        through = rate[net.hop_flow] * np.exp(upto)
        sent = total_by(net.hop_link, through, net.n_links)
        gone = rate[net.hop_flow] * (np.exp(upto - kept) - np.exp(upto))
        return sent, total_by(net.hop_pair, gone, len(lost))

    def _progress(
        self, want: NDArray[np.float64], rate: NDArray[np.float64], lost: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """float64[G]: a collective goes as fast as its slowest flow, anything else on average."""
        flows = self._net.flows
        progress = np.ones(self._groups)
        active = want > 0
        useful = np.clip(1 - RESENT_PER_LOSS * (self._loss + lost), 0.1, 1.0)
        pace = np.where(active, rate * useful / np.maximum(want, 1.0), 1.0)
        bound = active & flows.coupled
        np.minimum.at(progress, flows.group[bound], pace[bound])
        return progress
