"""The protobuf of remote write 1.0, as far as a sender needs it.

    WriteRequest {repeated TimeSeries timeseries = 1}
    TimeSeries   {repeated Label labels = 1; repeated Sample samples = 2}
    Label        {string name = 1; string value = 2}
    Sample       {double value = 1; int64 timestamp = 2}   milliseconds

A series of one sample ends in 18 bytes of constant layout: the sample with its value and a
timestamp of six varint bytes (any time from 1971 to 2109). That is what lets a tick be written by
patching two places of bytes that were encoded once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from fabricmon_exporters.prometheus.labels import label_text

if TYPE_CHECKING:
    from collections.abc import Iterable

SAMPLE = b"\x12\x10\x09" + bytes(8) + b"\x10" + bytes(6)
"""A sample with value and time left blank."""
VALUE_FROM_END, TIME_FROM_END = 15, 6
"""Where value and time stand, in bytes before the end of a series."""
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
"""The NaN by which a receiver is told that a series has ended."""


def varint(number: int) -> bytes:
    """Base-128, lowest group first."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def timestamp(time_ms: int) -> bytes:
    """Six bytes. Raises `ValueError` for times that need more or fewer."""
    text = varint(time_ms)
    if len(text) != TIME_FROM_END:
        raise ValueError(f"{time_ms} ms is not between 1971 and 2109")
    return text


def label(name: str, value: str) -> bytes:
    """One label as a field of its series. An empty value means no label, as Prometheus has it."""
    if not value:
        return b""
    key, text = name.encode(), label_text(value).encode()
    body = b"\x0a" + varint(len(key)) + key + b"\x12" + varint(len(text)) + text
    return b"\x0a" + varint(len(body)) + body


def label_set(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Labels sorted by name, as the protocol demands."""
    return b"".join(label(name, value) for name, value in sorted(pairs))


def series(labels: bytes) -> bytes:
    """One series with its labels and a blank sample."""
    return b"\x0a" + varint(len(labels) + len(SAMPLE)) + labels + SAMPLE
