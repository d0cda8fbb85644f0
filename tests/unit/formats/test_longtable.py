"""formats/longtable: counters in long form, CSV and Parquet."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabricmon.errors import FormatError
from fabricmon.formats.base import Layout, joined
from fabricmon.formats.tables import cells, longtable

if TYPE_CHECKING:
    from fabricmon.formats.base import BadRecord
    from fabricmon.model.readings import ReadingBatch

HEADER = "time,device,port,queue,counter,value\n"


def stream(data: str | bytes) -> io.BufferedReader:
    """A plain stream of `data`."""
    raw = data.encode() if isinstance(data, str) else data
    return io.BufferedReader(io.BytesIO(raw))  # type: ignore[arg-type] # raw enough


def read(data: str | bytes) -> tuple[dict[tuple[str, ...], int | float], list[str]]:
    """{(device, port, counter, queue): value} of the last of each, and what was told."""
    told: list[BadRecord] = []
    layout = Layout("dump")
    chunks = list(longtable.read(stream(data), "f", layout, told.append))
    out: dict[tuple[str, ...], int | float] = {}
    for batch in layout.batches(joined(chunks)):
        _collect(batch, out)
    return out, [str(bad) for bad in told]


def _collect(batch: ReadingBatch, out: dict[tuple[str, ...], int | float]) -> None:
    for n, name in enumerate(zip(batch.ports.device, batch.ports.port, strict=True)):
        for k, column in enumerate(batch.columns):
            if batch.state[k, n] == 0:
                out[*name, column.counter.id, str(column.queue)] = int(batch.values[k, n])
        for k, column in enumerate(batch.gauge_columns):
            if not np.isnan(batch.gauges[k, n]):
                out[*name, column.counter.id, str(column.queue)] = float(batch.gauges[k, n])


def parquet(columns: dict[str, Any]) -> bytes:
    """A Parquet file of these columns."""
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def test_csv_and_parquet_of_one_table_are_the_same() -> None:
    """Port and queue scope, the largest count, and levels with fractions come through both."""
    rows = (
        "5,a,1,,tx_bytes,18446744073709551615\n"
        "5,a,1,3,rx_pfc_frames,7\n"
        "5,a,1,,rx_power_dbm,-3.25\n"
        "5,b,2,,speed_bps,400000000000\n"
    )
    expected = {
        ("a", "1", "tx_bytes", "-1"): (1 << 64) - 1,
        ("a", "1", "rx_pfc_frames", "3"): 7,
        ("a", "1", "rx_power_dbm", "-1"): -3.25,
        ("b", "2", "speed_bps", "-1"): 4e11,
    }
    assert read(HEADER + rows) == (expected, [])
    table = parquet(
        {
            "time": [5, 5, 5, 5],
            "device": ["a", "a", "a", "b"],
            "port": ["1", "1", "1", "2"],
            "queue": pa.array([None, 3, None, None], pa.int16()),
            "counter": ["tx_bytes", "rx_pfc_frames", "rx_power_dbm", "speed_bps"],
            "value": pa.array([(1 << 64) - 1, 7, None, 400_000_000_000], pa.uint64()),
            "gauge": [None, None, -3.25, None],
        }
    )
    assert read(table) == (expected, [])


def test_each_bad_row_costs_itself_and_is_named_by_its_line() -> None:
    """Ten rows, eight wrong in eight ways: two values are read and eight lines are named."""
    rows = (
        "5,a,1,,rx_bytes,5\n"  # 2
        "x,a,1,,rx_bytes,5\n"  # 3: time
        "5,,1,,rx_bytes,5\n"  # 4: device
        "5,a,1,3\n"  # 5: cells
        "5,a,1,3,rx_bytes,5\n"  # 6: a port counter has no queue
        "5,a,1,,rx_pfc_frames,5\n"  # 7: a queue counter needs one
        "5,a,1,z,rx_pfc_frames,5\n"  # 8: queue
        "5,a,1,,tx_bytes,-5\n"  # 9: value
        "5,a,1,,tx_bytes,18446744073709551616\n"  # 10: value
        "5,a,1,,tx_packets,9\n"
    )
    values, told = read(HEADER + rows)
    assert values == {("a", "1", "rx_bytes", "-1"): 5, ("a", "1", "tx_packets", "-1"): 9}
    assert sorted(int(text.split(":")[1]) for text in told) == [3, 4, 5, 6, 7, 8, 9, 10]


def test_line_numbers_hold_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file of many blocks the line of a late bad row is still right."""
    monkeypatch.setattr(cells, "_BLOCK", 2000)
    rows = [f"{i},a,1,,rx_bytes,{i}\n" for i in range(1, 2000)]
    rows[500] = "1,a,1\n"
    rows[1500] = "1,a,1,,rx_bytes,?\n"
    _, told = read(HEADER + "".join(rows))
    assert [text.split(":")[1] for text in told] == ["502", "1502"]


def test_a_counter_we_do_not_know_is_told_once() -> None:
    """Foreign counters are no fault of a row; an empty value is not there, which is no fault."""
    rows = "1,a,1,,fan_rpm,5\n2,a,1,,fan_rpm,6\n1,a,1,,rx_bytes,\n2,a,1,,rx_bytes,NaN\n"
    values, told = read(HEADER + rows)
    assert values == {}
    assert told == ["f: 'fan_rpm' is not in the catalogue: its rows are left out"]


def test_tables_that_went_through_pandas_are_read() -> None:
    """Floats where whole numbers are due, time stamps and categories read as what they mean."""
    table = parquet(
        {
            "time": pa.array([5_000_000_000], pa.timestamp("ns")),
            "device": pa.array(["a"]).dictionary_encode(),
            "port": pa.array(["1"], pa.large_string()),
            "queue": [3.0],
            "counter": pa.array(["rx_pfc_frames"]).dictionary_encode(),
            "value": [12.0],
        }
    )
    assert read(table) == ({("a", "1", "rx_pfc_frames", "3"): 12}, [])
    row = "5e9,a,1,3.0,rx_pfc_frames,1.2e1\n"
    assert read(HEADER + row) == ({("a", "1", "rx_pfc_frames", "3"): 12}, [])


def test_columns_may_stand_in_any_order_and_queue_may_lack() -> None:
    """The header says what is where; more columns are ignored."""
    text = "value,counter,note,port,device,time\n7,rx_bytes,x,1,a,5\n"
    assert longtable.sniff(text.encode())
    assert read(text) == ({("a", "1", "rx_bytes", "-1"): 7}, [])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("time,device,port,counter\n1,a,1,rx_bytes\n", "has no column value"),
        (b"PAR1 and then nothing of the kind", "not readable as Parquet"),
        (parquet({"time": [1]}), "has no column counter, device, port, value"),
    ],
)
def test_what_is_no_such_table_is_one_clear_error(data: str | bytes, said: str) -> None:
    """The error names the file and what lacks."""
    with pytest.raises(FormatError, match=said):
        read(data)


def test_a_table_without_rows_is_empty() -> None:
    """A header alone holds nothing and is no error."""
    assert read(HEADER) == ({}, [])
