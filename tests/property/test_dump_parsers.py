"""Whatever bytes stand in a dump: it is read, or refused in one clear error. Nothing else."""

from __future__ import annotations

import contextlib
import gzip
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.errors import FormatError
from fabricmon.formats.base import BadRecord, Layout
from fabricmon.formats.interchange import read_labels, read_topology
from fabricmon.formats.tables import columns, longtable
from fabricmon.record import open_source
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
TABLE = (
    b"time,device,port,queue,counter,value\n"
    b"1000000000,leaf1,Ethernet1,,rx_bytes,18446744073709551615\n"
    b'1000000000,"leaf, 1",Ethernet1,3,rx_pfc_frames,7\n'
    b"2000000000,leaf1,Ethernet1,,rx_power_dbm,-3.5\n"
)
CSV = (
    b"SaveTimeUTC,DeviceName,PortName,InPkts,InOctets,OutPkts,OutOctets\n"
    b"1000,leaf1,p1,1,100,2,200\n2000,leaf1,p1,0,0,,5\n"
)
TOPOLOGY = (
    b'{"nodes":[{"name":"a","kind":"host","role":"host","technology":"roce"}],"links":[{"a":["a","1"],'
    b'"b":["b","2"],"speed_bps":1e11}],"jobs":[{"name":"j","hosts":["a"]}],"ports":[{"device":"a",'
    b'"port":"1","rail":3}],"fabric":{"lossless_queues":[3],"ecn":"off","interval_s":1}}'
)
LABELS = b'[{"kind":"incast","start":1,"end":2,"causes":[{"device":"a","port":"1"}],"victims":[]}]'


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A good file with parts cut out, doubled, or replaced by noise."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 12)))
        data[at:end] = draw(
            st.one_of(
                st.binary(max_size=6),
                st.sampled_from(
                    [b"", b"\n", b",", b'"', b"\x00", b"-", b"1e999", b"9" * 25, b"[[", b"{"]
                ),
                st.just(bytes(data[at:end]) * 2),
            )
        )
    return bytes(data)


def stream(data: bytes) -> io.BufferedReader:
    """A plain stream."""
    return io.BufferedReader(io.BytesIO(data))  # type: ignore[arg-type] # raw enough


@given(damaged(TABLE))
@settings(max_examples=80)
def test_damaged_tables(data: bytes) -> None:
    """Rows are read or told; what is read goes into batches."""
    layout, told = Layout("x"), list[BadRecord]()
    try:
        for chunk in longtable.read(stream(data), "f", layout, told.append):
            layout.batches(chunk)
    except FormatError as error:
        told.append(BadRecord(error.file, error.line, error.message))
    assert all(bad.file == "f" for bad in told)


@given(damaged(CSV))
@settings(max_examples=80)
def test_damaged_csv_by_a_map(data: bytes) -> None:
    """The same of any other CSV."""
    layout, told = Layout("x"), list[BadRecord]()
    reader = columns.Reader(
        columns.load(EXAMPLES / "columns-differences.yaml"), layout, told.append
    )
    try:
        for chunk in reader.read(stream(data), "f"):
            layout.batches(chunk)
    except FormatError as error:
        told.append(BadRecord(error.file, error.line, error.message))
    assert all(bad.file == "f" for bad in told)


@given(damaged(TOPOLOGY))
@settings(max_examples=80)
def test_damaged_topologies(data: bytes) -> None:
    """A topology, or what is wrong with it."""
    with contextlib.suppress(FormatError):
        read_topology(data, "f")


@given(damaged(LABELS))
def test_damaged_labels(data: bytes) -> None:
    """Labels, or what is wrong with them."""
    with contextlib.suppress(FormatError):
        read_labels(data, "f")


@given(st.one_of(st.binary(max_size=300), damaged(TABLE), damaged(gzip.compress(TABLE, mtime=0))))
@settings(max_examples=80)
def test_any_file_at_all(data: bytes) -> None:
    """`open_source` of one file of noise is a stream or one clear error."""
    report = Reporter(ManualClock())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(data)
        with contextlib.suppress(FormatError):
            for item in open_source([path], report=report).items():
                assert item is not None


@pytest.mark.parametrize("depth", [200, 100_000])
def test_nesting_bombs(depth: int) -> None:
    """JSON nested without end is refused, not followed."""
    with pytest.raises(FormatError):
        read_topology(b'{"nodes":' + b"[" * depth + b"]" * depth + b"}", "f")
