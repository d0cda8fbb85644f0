"""Notifications by their bytes: the fast way says what the slow way says, and nothing raises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.formats.base import Layout
from fabricmon.formats.gnmi import gnmi_path
from fabricmon.formats.gnmi.gnmi_notification import NotificationReader, write_path
from fabricmon.formats.gnmi.gnmi_proto import messages
from fabricmon.formats.gnmi.gnmi_record import Recorder
from fabricmon.formats.lines.numerals import varint_numbers
from fabricmon.formats.lines.series_table import SeriesTable
from fabricmon.mappings.gnmi import GnmiPaths

T0 = 1_764_460_800_000_000_000
PATHS = GnmiPaths.load("openconfig")

counts = st.one_of(st.sampled_from([0, 1, 127, 128, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
leaves = st.sampled_from(["in-octets", "out-octets", "in-pkts", "nobody-knows", "out-errors"])
values = st.one_of(
    st.tuples(st.just("uint_val"), counts),
    st.tuples(st.just("uint_val"), counts),
    st.tuples(st.just("string_val"), st.sampled_from(["5", "max"])),
    st.tuples(st.just("json_val"), st.sampled_from([b"7", b"[", b'{"x":1}'])),
)
ports = st.sampled_from(["e1", "e2", "eth1/2:3", "x" * 150])


@st.composite
def notes(draw: st.DrawFn) -> bytes:
    """A response: mostly counts, of few ports, so that texts repeat."""
    response = messages().SubscribeResponse()
    note = response.update
    note.timestamp = T0 + draw(st.integers(0, 3)) * 10**9
    prefix = f"interfaces/interface[name={draw(ports)}]/state/counters"
    write_path(gnmi_path.split(prefix), note.prefix)
    plain = draw(st.booleans())
    for leaf in draw(st.lists(leaves, min_size=1, max_size=4, unique=True)):
        update = note.update.add()
        update.path.elem.add(name=leaf)
        kind, value = ("uint_val", draw(counts)) if plain else draw(values)
        setattr(update.val, kind, value)
    if draw(st.integers(0, 9)) == 0:
        note.delete.add().elem.add(name="gone")
    return bytes(response.SerializeToString())


class Reader:
    """A reader, and everything it took."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.layout = Layout("t")
        self.recorder = Recorder(SeriesTable(self.layout, PATHS), PATHS, "dut")
        self.reader = NotificationReader(self.recorder, "dut")

    def samples(self) -> list[tuple[Any, ...]]:
        """Port, column, time and value of each, in a fixed order."""
        self.recorder.samples.pack(1)
        chunk = self.recorder.samples.take()
        names = [self.layout._names[n] for n in chunk.port]
        columns = {number: column for column, number in self.layout._by_value.items()}
        source = [columns[n].source for n in chunk.column]
        return sorted(zip(names, source, chunk.time_ns.tolist(), chunk.raw.tolist(), strict=True))


@settings(max_examples=150)
@given(st.lists(notes(), min_size=1, max_size=12))
def test_fast_and_slow_agree(raws: list[bytes]) -> None:
    """The same samples, whether bytes are matched or messages are parsed; twice, to have learnt."""
    fast, slow = Reader(), Reader()
    for raw in raws * 2:
        assert fast.reader.take_raw(raw, 1) is False
        slow.reader.take(messages().SubscribeResponse.FromString(raw).update, 1)
    assert fast.samples() == slow.samples()
    assert fast.recorder.samples.absent == slow.recorder.samples.absent
    assert fast.recorder.deleted == slow.recorder.deleted


@settings(max_examples=200)
@given(st.lists(notes(), min_size=1, max_size=3), st.data())
def test_damaged_bytes_are_refused(raws: list[bytes], data: Any) -> None:
    """Bytes changed anywhere are read as something or refused with a `ValueError`."""
    reader = Reader()
    for raw in raws:
        reader.reader.take_raw(raw, 1)
        broken = bytearray(raw)
        at = data.draw(st.integers(0, len(raw)))
        broken[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        try:
            reader.reader.take_raw(bytes(broken), 1)
        except ValueError as error:
            assert str(error)  # noqa: PT017
    reader.samples()


def test_the_end_of_an_answer() -> None:
    """A sync response says so; anything else that is no update says nothing."""
    response = messages().SubscribeResponse
    assert Reader().reader.take_raw(response(sync_response=True).SerializeToString(), 1) is True
    assert Reader().reader.take_raw(b"", 1) is False
    with pytest.raises(ValueError, match="no SubscribeResponse"):
        Reader().reader.take_raw(b"\xff\xff\xff", 1)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=30))
def test_varints(numbers: list[int]) -> None:
    """Numbers of any size come out of their bytes, many at once."""

    def varint(number: int) -> bytes:
        out = bytearray()
        while number > 0x7F:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        return bytes([*out, number])

    found = varint_numbers([varint(number) for number in numbers])
    assert found.dtype == np.uint64
    assert found.tolist() == numbers
