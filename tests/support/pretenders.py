"""Targets that give nothing, or nonsense: what is always among thousands of devices."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _bound() -> socket.socket:
    channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    channel.bind(("127.0.0.1", 0))
    return channel


@contextmanager
def dead(count: int) -> Iterator[list[str]]:
    """Addresses that never answer: every other one refuses, the rest swallow what they are sent."""
    with ExitStack() as stack:
        channels = [stack.enter_context(_bound()) for _ in range(count)]
        addresses = [f"127.0.0.1:{channel.getsockname()[1]}" for channel in channels]
        for channel in channels[::2]:
            channel.close()
        yield addresses


@contextmanager
def liar() -> Iterator[str]:
    """An SNMP agent that answers with noise, with the request, and with broken pieces of it."""
    channel, stop, dice = _bound(), threading.Event(), random.Random(3)
    channel.settimeout(0.1)

    def run() -> None:
        while not stop.is_set():
            try:
                data, address = channel.recvfrom(65_535)
            except TimeoutError:
                continue
            noise = dice.randbytes(dice.randrange(200))
            cut = data[: dice.randrange(len(data))]
            bent = bytes(b ^ (dice.random() < 0.02) for b in data)
            for answer in dice.sample([noise, data, cut, bent, b""], 2):
                channel.sendto(answer, address)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{channel.getsockname()[1]}"
    finally:
        stop.set()
        thread.join()
        channel.close()


@contextmanager
def inventor(path: Path, every_s: float) -> Iterator[Path]:
    """A file in which a device tells of new ports all the time, and never of the old ones again."""
    stop, number = threading.Event(), iter(range(1 << 40))

    def run() -> None:
        while not stop.wait(every_s):
            events = [
                {
                    "name": "port-stats",
                    "timestamp": time.time_ns(),
                    "tags": {"interface_name": f"Ethernet{next(number)}", "source": "liar:6030"},
                    "values": {"/interfaces/interface/state/counters/in-octets": 1},
                }
                for _ in range(4)
            ]
            path.write_text("".join(json.dumps([event]) + "\n" for event in events))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield path
    finally:
        stop.set()
        thread.join()
