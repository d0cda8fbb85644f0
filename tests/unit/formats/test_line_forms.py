"""Numbers found in text, and lines read by the forms of those before them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gnmi import Read, read

from fabricmon.formats.gnmi.gnmi import GnmiDecoder
from fabricmon.formats.lines import numerals

if TYPE_CHECKING:
    from collections.abc import Callable

T0 = 1_764_460_800_000_000_000


def found(text: bytes) -> tuple[list[tuple[bytes, bool]], bytes]:
    """The numbers of a line, which of them are whole, and the line without them."""
    padded = numerals.PAD + text + b"\n"
    octets = np.frombuffer(padded, np.uint8)
    seen = numerals.find(octets)
    numbers = [
        (padded[a:b], bool(whole))
        for a, b, whole in zip(seen.start, seen.end, seen.whole, strict=True)
    ]
    return numbers, numerals.blanked(octets, seen)[len(numerals.PAD) : -1]


@pytest.mark.parametrize(
    ("text", "numbers", "blank"),
    [
        (b'{"a":5,"b":"60"}', [b"5", b"60"], b'{"a":\x01,"b":"\x01"}'),
        (b'{"a": 5, "b": "60"}', [b"5", b"60"], b'{"a": \x01, "b": "\x01"}'),
        (b"m,q=3 f=5i,g=2u 17", [b"3", b"5", b"2", b"17"], b"m,q=\x01 f=\x01i,g=\x01u \x01"),
        (b'{"n":"Eth1/2:3","s":"leaf0:6030"}', [], b'{"n":"Eth1/2:3","s":"leaf0:6030"}'),
        (b'{"a":"10.0.0.1","b":"1-2","c":[5,6]}', [], b'{"a":"10.0.0.1","b":"1-2","c":[5,6]}'),
        (b'{"a":007,"b":"007"}', [b"007"], b'{"a":007,"b":"\x01"}'),
        (
            b'{"recv-time":"2025-11-30T10:15:00.25Z","x":1}',
            [b"2025", b"-11", b"-30", b"10", b"15", b"00.25", b"1"],
            b'{"recv-time":"\x01\x01\x01T\x01:\x01:\x01Z","x":\x01}',
        ),
        (b'{"born":"2025-11-30T10:15:00Z"}', [], b'{"born":"2025-11-30T10:15:00Z"}'),
    ],
)
def test_numbers_that_stand_as_values(text: bytes, numbers: list[bytes], blank: bytes) -> None:
    """Values and times are found; digits in names, addresses and lists are text."""
    seen, rest = found(text)
    assert ([number for number, _ in seen], rest) == (numbers, blank)


@pytest.mark.parametrize(
    ("number", "whole"),
    [
        *((b"0", True), (b"9" * 19, True), (b"9" * 20, False), (b"-5", False), (b"1.5", False)),
        *((b"1e21", False), (b"1.5E-254", False)),
    ],
)
def test_whole_numbers(number: bytes, whole: bool) -> None:
    """Only integers that surely fit into 64 bits are read by the thousand."""
    assert found(b'{"a":%b}' % number)[0] == [(number, whole)]


@given(st.lists(st.integers(0, 10**19 - 1), min_size=1))
def test_integers_are_exact(numbers: list[int]) -> None:
    """Whatever their lengths and wherever they stand."""
    text = numerals.PAD + b"".join(b'"x":%d,\n' % number for number in numbers)
    seen = numerals.find(np.frombuffer(text, np.uint8))
    assert numerals.integers(text, seen.start, seen.end).tolist() == numbers


def event(time: object, values: dict[str, Any], **tags: str) -> dict[str, Any]:
    """An event of one port."""
    tags = {"interface_name": "e1", "source": "leaf1:6030", **tags}
    return {"name": "s", "timestamp": time, "tags": tags, "values": values}


def both(*documents: Any) -> tuple[Read, GnmiDecoder]:
    """Read one line a document, one feed each, so that each may fit what the ones before taught."""
    result = read(b"")
    decoder = GnmiDecoder(result.recorder, result.bad.append)
    for document in documents:
        decoder.feed(json.dumps(document, separators=(",", ":")).encode() + b"\n", T0)
    return result, decoder


def values(result: Read) -> list[tuple[str, int, int, float]]:
    """Column, queue, time and value of all samples, in order."""
    return [sample[1:] for sample in placed(result)]


def placed(result: Read) -> list[tuple[str, str, int, int, float]]:
    """Port, column, queue, time and value of all samples, in order."""
    table = result.recorder.table
    chunk = result.recorder.samples.take()
    ports = [port for _, port in table.layout._names]
    names = {number: column for column, number in table.layout._by_value.items()}
    out = []
    for at in range(len(chunk)):
        column = names[int(chunk.column[at])]
        raw = chunk.raw[at : at + 1]
        level = raw.view(np.float64)[0] if column.counter.is_gauge else int(raw[0])
        time = int(chunk.time_ns[at] - T0)
        out.append((ports[chunk.port[at]], column.counter.id, column.queue, time, level))
    return out


IN = "/interfaces/interface/state/counters/in-octets"
PFC = "/interfaces/interface/ethernet/pfc/priorities/priority/state/in-frames"
POWER = "/components/component/transceiver/state/input-power/instant"
UP = "/interfaces/interface/state/oper-status"


def test_a_line_seen_before_is_known() -> None:
    """One form serves all samples of a line; counts, levels and states come out in their order."""
    result, decoder = both(
        *(
            event(T0 + k, {IN: 5 + k, POWER: -2.5 + k, UP: "UP"}, component_name="e1")
            for k in range(4)
        )
    )
    assert len(decoder.forms) == 1
    assert sorted(values(result)) == sorted(
        sample
        for k in range(4)
        for sample in (
            ("rx_bytes", -1, k, 5 + k),
            ("rx_power_dbm", -1, k, -2.5 + k),
            ("oper_up", -1, k, 1.0),
        )
    )


def test_numbers_that_are_names() -> None:
    """Lines that differ in a number of a tag are of one text and of different forms."""
    documents = [
        event(T0 + k, {PFC: str(10 * queue + k)}, priority_index=str(queue))
        for k in range(3)
        for queue in (3, 4, 5)
    ]
    result, decoder = both(*documents)
    assert len(decoder.forms) == 3
    assert values(result) == [
        ("rx_pfc_frames", queue, k, 10 * queue + k) for k in range(3) for queue in (3, 4, 5)
    ]


def test_each_event_keeps_its_own_time() -> None:
    """Events of one array may be of different times, also where they were the same at first."""
    result, decoder = both(
        [event(T0, {IN: 1}), event(T0, {UP: "UP"})],
        [event(T0 + 5, {IN: 2}), event(T0 + 9, {UP: "UP"})],
    )
    assert len(decoder.forms) == 1
    assert values(result) == [
        *(("rx_bytes", -1, 0, 1), ("oper_up", -1, 0, 1.0)),
        *(("rx_bytes", -1, 5, 2), ("oper_up", -1, 9, 1.0)),
    ]


def test_what_does_not_fit_its_form_is_read_in_full() -> None:
    """A value that is no count any more is missing, not the digits in it."""
    odd = ["6", "-6", "6.5", "18446744073709551616", "1e3", "007", "8"]
    result, _ = both(*(event(T0 + k, {IN: text}) for k, text in enumerate(odd)))
    assert values(result) == [
        ("rx_bytes", -1, 0, 6),
        ("rx_bytes", -1, 5, 7),
        ("rx_bytes", -1, 6, 8),
    ]
    assert result.recorder.samples.absent == 4


def protojson(time: int, count: int) -> str:
    """A notification as protojson."""
    steps = [{"name": name} for name in ("interfaces", "interface", "state", "counters")]
    steps[1]["key"] = {"name": "12"}  # type: ignore[assignment]
    update = {"path": {"elem": [{"name": "in-octets"}]}, "val": {"uintVal": str(count)}}
    note = {"timestamp": str(time), "prefix": {"elem": steps, "target": "leaf1"}}
    return json.dumps({"update": {**note, "update": [update]}}, separators=(",", ":"))


def telegraf(time: int, count: int) -> str:
    """The same as telegraf's JSON output, in seconds."""
    path = "/interfaces/interface/state/counters"
    tags = {"name": "12", "source": "leaf1", "path": path}
    metric = {"fields": {"in_octets": count}, "name": "ifc", "tags": tags}
    return json.dumps({**metric, "timestamp": time // 10**9}, separators=(",", ":"))


def influx(time: int, count: int) -> str:
    """The same as a line of the influx protocol."""
    path = "/interfaces/interface/state/counters"
    return f"ifc,name=12,source=leaf1,path={path} in_octets={count}i,other=7i {time}"


@pytest.mark.parametrize("write", [protojson, telegraf, influx])
def test_every_one_line_shape_is_learnt(write: Callable[[int, int], str]) -> None:
    """Whatever wrote it, the second line is known by the first; a port may be a number."""
    result = read(b"")
    decoder = GnmiDecoder(result.recorder, result.bad.append)
    seconds = [k * 10**9 for k in range(4)]
    for k, later in enumerate(seconds):
        decoder.feed(f"{write(T0 + later, 2**63 + k)}\n".encode(), T0)
    assert (len(decoder.forms), result.bad) == (1, [])
    assert values(result) == [("rx_bytes", -1, t, 2**63 + k) for k, t in enumerate(seconds)]
    assert result.recorder.table.layout.devices()[1] == ["leaf1"]


def test_decimals_are_numbers() -> None:
    """What gnmic's `json` makes of a decimal64 is the number behind it, each time anew."""
    messages = [
        {
            "source": "leaf1",
            "timestamp": T0 + k,
            "updates": [
                {
                    "Path": "components/component[name=e1]/transceiver/state/input-power/instant",
                    "values": {"p": {"digits": -231 - k, "precision": 2}},
                }
            ],
        }
        for k in range(3)
    ]
    result, _ = both(*messages)
    assert values(result) == [("rx_power_dbm", -1, k, (-231 - k) / 100) for k in range(3)]


class Forbidden(dict[bytes, int]):
    """Texts that must not be looked up."""

    def get(self, *_: object) -> int:
        """Never to be called."""
        raise AssertionError("looked up")


def cycle(k: int, *numbers: object) -> list[dict[str, Any]]:
    """What one sample of a device is: a line for each value."""
    return [
        event(T0 + k, {IN: number}, interface_name=f"e{port}")
        for port, number in enumerate(numbers)
    ]


def fed(decoder: GnmiDecoder, documents: list[dict[str, Any]]) -> None:
    """Lines that come together."""
    lines = [json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in documents]
    decoder.feed(b"".join(lines), T0)


def test_what_always_comes_in_one_order_is_not_looked_up() -> None:
    """Once a source has repeated itself its lines are known by their place; counts may grow."""
    result, decoder = both()
    for k in range(4):
        fed(decoder, cycle(k, 5 + k, 10**12 + k, 0, 88 + k))
    texts, decoder.forms._ids = decoder.forms._ids, Forbidden(decoder.forms._ids)
    fed(decoder, cycle(4, 9, 10**12 + 4, 0, 99))
    fed(decoder, cycle(5, 10, 10**12 + 5, 1, 100))
    decoder.forms._ids = texts
    fed(decoder, cycle(6, 11, 10**12 + 6, 2, 101)[::-1])
    assert [value for *_, value in sorted(values(result), key=lambda one: (one[2], one[3]))] == [
        value
        for k, low in enumerate((5, 6, 7, 8, 9, 10, 11))
        for value in sorted((low, 10**12 + k, max(0, k - 4), (88, 89, 90, 91, 99, 100, 101)[k]))
    ]


odd = st.sampled_from([0.5, -3, "007", "7", True, None, 10**19, "max"])
likely = st.tuples(*(st.integers(10**n, 10 ** (n + 1) - 1) for n in range(1, 6))).map(list)
unlikely = st.lists(st.one_of(st.integers(0, 10**19), odd), min_size=5, max_size=5)
counts = st.one_of(likely, likely, unlikely)


@given(st.lists(st.tuples(counts, st.permutations(range(5)), st.booleans()), max_size=8))
def test_lines_in_any_order_say_the_same(
    cycles: list[tuple[list[object], list[int], bool]],
) -> None:
    """Foretold or not: numbers that grow, shrink or are none, lines that change places."""
    result, decoder = both()
    for k in range(4):
        fed(decoder, cycle(k, 10, 200, 3000, 40000, 500000))
    placed(result)
    expected = []
    for k, (numbers, order, shuffled) in enumerate(cycles):
        lines = cycle(k + 4, *numbers)
        lines = [lines[at] for at in order] if shuffled else lines
        fed(decoder, lines)
        for line in lines:
            expected += placed(both(line)[0])
    assert sorted(placed(result)) == sorted(expected)


@pytest.mark.parametrize("other", ["null", "true", "1e99", "0012", '"12"', "12.5", "-123"])
def test_what_is_as_long_as_last_time_may_be_something_else(other: str) -> None:
    """Neither another name in the place of one nor something else in that of a number is taken."""
    result, decoder = both()
    for k in range(5):
        fed(decoder, cycle(k, 1000, 2000, 3000, 4000))
    placed(result)
    lines = [json.dumps(one, separators=(",", ":")) for one in cycle(5, 1000, 2000, 3000, 4000)]
    lines[1] = lines[1].replace("2000", other)
    lines[2] = lines[2].replace('"e2"', '"e8"')
    decoder.feed("".join(line + "\n" for line in lines).encode(), T0)
    expected = []
    for line in lines:
        alone, decoder = both()
        decoder.feed(line.encode() + b"\n", T0)
        expected += placed(alone)
    assert sorted(placed(result)) == sorted(expected)
    assert {port for port, *_ in expected} >= {"e0", "e8", "e3"}
