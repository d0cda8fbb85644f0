"""Shares of time out of rates: what the port could not do, and what it made its peer not do.

Where a device gives time, time is used: InfiniBand transmit-wait ticks times the bytes one stands
for, nanoseconds with data waiting, nanoseconds paused. Where it gives only pause frames, a frame
can stand for anything up to the longest pause it can ask for, and nothing was sent meanwhile:

    0  <=  estimate = frames x a typical pause  <=  frames x the longest pause, 1 - use
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.frame import PAUSE_BITS, SILENT_USE, STUCK_PAUSE, TYPICAL_PAUSE, Ratios

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_IMPOSSIBLE = 1.25
"""A share of time beyond this proves that its unit is wrong."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What the ratios are made of.

    port(id)   float32[N] per second, NaN unknown; queue(id) float32[Q,N]
    speed_bps, tick_bytes  float64[N], NaN unknown
    lossless   which of the Q queues count for a port's stall; none means: all
    """

    port: Callable[[str], NDArray[np.float32]]
    queue: Callable[[str], NDArray[np.float32]]
    speed_bps: NDArray[np.float64]
    tick_bytes: NDArray[np.float64]
    lossless: NDArray[np.intp]


def _share(part: NDArray[np.float32]) -> NDArray[np.float32]:
    """0..1; NaN where the number is impossible."""
    share = np.minimum(part, np.float32(1))
    share[part > _IMPOSSIBLE] = np.nan
    return share


def _largest(queues: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[N]: the largest known of [Q,N], NaN where none is."""
    largest: NDArray[np.float32] = np.fmax.reduce(queues, axis=0, initial=np.nan)
    return largest


def derive(rates: Rates) -> Ratios:
    """All ratios of one tick."""
    octets = (rates.speed_bps / 8).astype(np.float32)
    tx_use = np.minimum(rates.port("tx_bytes") / octets, np.float32(1))
    rx_use = np.minimum(rates.port("rx_bytes") / octets, np.float32(1))
    own = rates.lossless if len(rates.lossless) else slice(None)

    queue_stall = _share(rates.queue("rx_pfc_ns") / np.float32(1e9))
    waits = _waiting_time(rates, octets)
    stall = np.where(np.isnan(waits), _largest(queue_stall[own]), waits)
    guess, high = _paused_by_frames(rates, "rx_pfc_frames", "rx_pause_frames", tx_use)
    estimated = np.isnan(stall) & ~np.isnan(guess)
    if (rates.port("rx_pause_frames") > 0).any():  # time paused by PFC leaves out global pauses
        coarse, _ = _paused(rates, rates.port("rx_pause_frames"), tx_use)
        estimated |= np.isnan(waits) & (coarse > stall)
    low = np.where(estimated, np.nan_to_num(stall), stall)

    queue_press = _share(rates.queue("tx_pfc_ns") / np.float32(1e9))
    press = _largest(queue_press[own])
    pressed, _ = _paused_by_frames(rates, "tx_pfc_frames", "tx_pause_frames", rx_use)
    press = np.where(np.isnan(press), pressed, press)
    if (rates.port("tx_pause_frames") > 0).any():
        coarse, _ = _paused(rates, rates.port("tx_pause_frames"), rx_use)
        press = np.fmax(press, coarse)
    return Ratios(
        stall=np.where(estimated, guess, stall),
        press=press,
        tx_use=tx_use,
        rx_use=rx_use,
        estimated=estimated,
        stall_low=low,
        stall_high=np.where(estimated, high, stall),
        queue_stall=queue_stall.T,
        queue_press=queue_press.T,
    )


def _waiting_time(rates: Rates, octets: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[N]: share of time in which what was there to send could not be, for any reason."""
    waits = _share(rates.port("tx_wait_ns") / np.float32(1e9))
    unknown = np.isnan(waits)
    if unknown.any():
        ticks = rates.port("tx_wait_ticks") * rates.tick_bytes.astype(np.float32) / octets
        waits = np.where(unknown, _share(ticks), waits)
    return waits


def _paused_by_frames(
    rates: Rates, per_queue: str, per_port: str, use: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """float32[N] twice: the share of time these frames paused, and the most they can have."""
    queues = rates.queue(per_queue)
    own = rates.lossless if len(rates.lossless) else slice(None)
    return _paused(rates, np.fmax(_largest(queues[own]), rates.port(per_port)), use)


def _paused(
    rates: Rates, frames: NDArray[np.float32], use: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The same of so many frames a second."""
    longest = (PAUSE_BITS / rates.speed_bps).astype(np.float32)
    idle = np.float32(1) - np.nan_to_num(use, nan=0.0)
    high = np.minimum(frames * longest, idle)
    guess = np.minimum(frames * longest * np.float32(TYPICAL_PAUSE), idle)
    stuck = (frames * longest >= STUCK_PAUSE) & (use <= SILENT_USE)
    return np.where(stuck, high, guess), high
