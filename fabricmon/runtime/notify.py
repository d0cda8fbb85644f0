"""Tell systemd how we are (sd_notify), where it asks: `Type=notify` and `WatchdogSec`."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send one state such as `READY=1`; without systemd this does nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(state.encode(), address)


async def feed_watchdog() -> None:
    """Prove twice per watchdog period that the event loop turns; without a watchdog, return."""
    period_us = os.environ.get("WATCHDOG_USEC", "")
    own = str(os.getpid())
    if not period_us.isdecimal() or os.environ.get("WATCHDOG_PID", own) != own:
        return
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(int(period_us) / 2e6)
