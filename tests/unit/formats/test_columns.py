"""formats/columns: a CSV of any make by a map."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fabricmon.errors import ConfigError, FormatError
from fabricmon.formats.base import Layout, joined
from fabricmon.formats.tables import columns

if TYPE_CHECKING:
    from fabricmon.formats.base import BadRecord, Chunk

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def load(tmp_path: Path, text: str) -> columns.ColumnMap:
    """The map written in `text`."""
    path = tmp_path / "map.yaml"
    path.write_text(text)
    return columns.load(path)


def read(
    column_map: columns.ColumnMap, *files: tuple[str, str]
) -> tuple[dict[tuple[str, str, str], list[tuple[int, float]]], list[str]]:
    """{(device, port, counter): [(time, value), …]} and what was told."""
    told: list[BadRecord] = []
    layout = Layout("x")
    reader = columns.Reader(column_map, layout, told.append)
    chunks: list[Chunk] = []
    for name, text in files:
        stream = io.BufferedReader(io.BytesIO(text.encode()))  # type: ignore[arg-type] # raw enough
        chunks.extend(reader.read(stream, name))
    out: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    chunk = joined(chunks)
    for i in range(len(chunk)):
        (batch,) = layout.batches(chunk.part(slice(i, i + 1)))
        names = list(zip(batch.ports.device, batch.ports.port, strict=True))
        n = names.index(layout._names[chunk.port[i]])
        levels = np.flatnonzero(~np.isnan(batch.gauges[:, n]))
        if len(levels):
            column, value = batch.gauge_columns[levels[0]], float(batch.gauges[levels[0], n])
        else:
            k = int(np.flatnonzero(batch.state[:, n] == 0)[0])
            column, value = batch.columns[k], int(batch.values[k, n])
        key = (batch.ports.device[n], batch.ports.port[n], column.counter.id)
        out.setdefault(key, []).append((int(chunk.time_ns[i]), value))
    return out, [str(bad) for bad in told]


def test_the_documented_map_of_differences_gives_running_totals() -> None:
    """Differences add up per port, over interleaved ports; the speed comes as a level."""
    text = (
        "SaveTime,SaveTimeUTC,DeviceName,PortName,InPkts,InOctets,OutPkts,OutOctets\n"
        "x,1000,leaf-1,p1,1,100,2,200\n"
        "x,1000,leaf-1,p2,5,500,6,600\n"
        "x,1500,leaf-1,p1,0,0,0,0\n"
        "x,2250,leaf-1,p1,3,300,4,18446744073709551\n"
    )
    values, told = read(columns.load(EXAMPLES / "columns-differences.yaml"), ("a.csv", text))
    assert told == []
    base = columns._BASE
    assert values["leaf-1", "p1", "rx_bytes"] == [
        (1_000_000_000, base + 100),
        (1_500_000_000, base + 100),
        (2_250_000_000, base + 400),
    ]
    assert values["leaf-1", "p1", "tx_bytes"][-1][1] == base + 200 + 18446744073709551
    assert values["leaf-1", "p2", "rx_packets"] == [(1_000_000_000, base + 5)]
    assert values["leaf-1", "p2", "speed_bps"] == [(1_000_000_000, 2e11)]


def test_the_documented_cumulative_map_takes_names_from_the_path() -> None:
    """Device and port stand in the path, times have a zone, words and microseconds are scaled."""
    column_map = columns.load(EXAMPLES / "columns-cumulative.yaml")
    text = "when,in_words,wait_us,pause3\n2026-01-31 12:00:00.250,1200,5,7\n"
    values, told = read(column_map, ("/data/leaf-3/port_17.csv", text))
    assert told == []
    moment = 1769857200_250_000_000  # 11:00:00.25 UTC
    assert values == {
        ("leaf-3", "17", "rx_bytes"): [(moment, 1200)],
        ("leaf-3", "17", "tx_wait_ns"): [(moment, 5)],
        ("leaf-3", "17", "rx_pfc_frames"): [(moment, 7)],
    }
    layout = Layout("x")
    for name, value in column_map.values.items():
        layout.column(value.column(name))
    assert column_map.values["in_words"].column("in_words").scale == 4
    assert column_map.values["in_words"].column("in_words").bits == 32
    assert column_map.values["wait_us"].column("wait_us").scale == 1000


def test_totals_go_on_over_files(tmp_path: Path) -> None:
    """A port's second file continues its total."""
    column_map = load(
        tmp_path,
        "time: {column: t, format: s}\ndevice: {constant: sw}\nport: {column: p}\n"
        "values:\n  d: {counter: rx_bytes, is: difference}\n",
    )
    values, _ = read(column_map, ("1", "t,p,d\n1,a,5\n"), ("2", "t,p,d\n2,a,7\n"))
    assert [v - columns._BASE for _, v in values["sw", "a", "rx_bytes"]] == [5, 12]


def test_an_unknown_difference_restarts_the_total(tmp_path: Path) -> None:
    """After a gap the total stands at zero, which is seen as a reset; then differences add up."""
    column_map = load(
        tmp_path,
        "time: {column: t, format: s}\ndevice: {constant: sw}\nport: {column: p}\n"
        "values:\n  d: {counter: rx_bytes, is: difference}\n",
    )
    text = "t,p,d\n1,a,5\n2,a,\n3,a,7\n4,a,1\n"
    values, told = read(column_map, ("f", text))
    assert [v for _, v in values["sw", "a", "rx_bytes"]] == [columns._BASE + 5, 0, 7, 8]
    assert told == []


def test_bad_cells_cost_their_value_and_are_named(tmp_path: Path) -> None:
    """A word in a number, a bad time and a missing name are told with their line."""
    column_map = load(
        tmp_path,
        "time: {column: t, format: ms}\ndevice: {column: d}\nport: {column: p}\n"
        "values:\n  x: {counter: rx_bytes}\n  y: {counter: tx_bytes, unit: bits}\n",
    )
    text = "t,d,p,x,y\n1,s,a,oops,80\nnow,s,a,1,1\n3,,a,1,1\n4,s,a,9,-8\n5,s,a,10,20\n"
    values, told = read(column_map, ("f", text))
    assert values["s", "a", "rx_bytes"] == [(4_000_000, 9), (5_000_000, 10)]
    assert values["s", "a", "tx_bytes"] == [(1_000_000, 10), (5_000_000, 2)]
    assert sorted(told) == [
        "f:2: 'x' is no number that fits",
        "f:3: 't' is no time",
        "f:4: the device or the port has no name",
        "f:5: 'y' is no number that fits",
    ]


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("iso", "2026-01-31T11:00:00.25+00:00"),
        ("iso", "2026-01-31 11:00:00.25"),
        ("s", "1769857200.25"),
        ("us", "1769857200250000"),
        ("'%d/%m/%Y %H:%M:%S.%f'", "31/01/2026 11:00:00.250"),
    ],
)
def test_times_of_every_make(tmp_path: Path, written: str, moment: str) -> None:
    """ISO 8601, epoch numbers of every unit, and a pattern give the same moment."""
    column_map = load(
        tmp_path,
        f"time: {{column: t, format: {written}}}\ndevice: {{constant: s}}\nport: {{constant: p}}\n"
        "values: {x: {counter: rx_bytes}}\n",
    )
    values, told = read(column_map, ("f", f"t,x\n{moment},5\n"))
    assert told == []
    assert values["s", "p", "rx_bytes"] == [(1769857200_250_000_000, 5)]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{counter: rx_byte}", "'rx_byte' is not in the catalogue"),
        ("{counter: rx_bytes, unit: us}", "rx_bytes is counted in bytes; write bytes, words"),
        ("{counter: rx_pfc_frames}", "rx_pfc_frames needs a `queue`"),
        (
            "{counter: rx_bytes, is: rate}",
            "'rate' is not allowed; use 'cumulative' or 'difference'",
        ),
        ("{counter: rx_bytes, of: 1}", "unknown key"),
    ],
)
def test_a_wrong_map_names_its_line(tmp_path: Path, row: str, said: str) -> None:
    """Line 5 of the map is wrong, and the error says what is allowed there."""
    with pytest.raises(ConfigError, match=rf"map.yaml:5: .*{said}"):
        load(
            tmp_path,
            "time: {column: t}\ndevice: {constant: s}\nport: {constant: p}\nvalues:\n"
            f"  x: {row}\n",
        )


def test_a_file_without_the_columns_is_one_clear_error(tmp_path: Path) -> None:
    """The error names the column that lacks."""
    column_map = load(
        tmp_path,
        "time: {column: t}\ndevice: {constant: s}\nport: {path: '_(.)'}\n"
        "values: {x: {counter: rx_bytes}}\n",
    )
    with pytest.raises(FormatError, match=r"f_1:1: has no column 'x'"):
        read(column_map, ("f_1", "t,y\n1,2\n"))
    with pytest.raises(FormatError, match="has no part that"):
        read(column_map, ("f", "t,x\n2026-01-01,2\n"))
