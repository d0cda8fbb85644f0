"""gNMI-style bytes: whatever comes, nothing raises, hangs or grows; what is whole is exact."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gnmi import Read, read

from fabricmon.formats.base import BadRecord
from fabricmon.formats.gnmi import gnmi, gnmi_path, prototext
from fabricmon.formats.gnmi.gnmi_path import Element
from fabricmon.formats.lines import line_forms
from fabricmon.formats.lines.series import as_count

T0 = 1_764_460_800_000_000_000
ROOT = "/interfaces/interface/state/counters/"
LEAVES = ("in-octets", "out-octets", "in-pkts", "out-errors", "unknown-leaf", "carrier-transitions")

ports = st.sampled_from(["Ethernet1", "Ethernet11", "eth1/2:3=4 x", 'a"b', "é", "x]y"])
counts = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1).map(str),
    st.sampled_from(["max", "NaN", "", "-5", "1e3", None, True, 0, -1, 2**64, 1.5, 3.0, "007"]),
)
events = st.builds(
    lambda port, values, time: {
        "name": "sub",
        "timestamp": time,
        "tags": {"interface_name": port, "source": "leaf1:6030"},
        "values": {ROOT + leaf: value for leaf, value in values.items()},
    },
    ports,
    st.dictionaries(st.sampled_from(LEAVES), counts, min_size=1),
    st.integers(0, 50).map(lambda n: T0 + n),
)
records = st.lists(st.lists(events, min_size=1, max_size=4), min_size=1, max_size=8)


def lines(batch: list[list[dict[str, Any]]]) -> bytes:
    """As gnmic writes them: compact, one record a line."""
    return b"".join(
        json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        for record in batch
    )


def expected(batch: list[list[dict[str, Any]]]) -> dict[tuple[str, int, str], int]:
    """What the lines say, by port, time and leaf; the last of two that speak of the same."""
    found: dict[tuple[str, int, str], int] = {}
    for record in batch:
        for event in record:
            for path, value in event["values"].items():
                count = as_count(orjson.loads(json.dumps(value)))
                if count is not None and "unknown" not in path:
                    key = (event["tags"]["interface_name"], event["timestamp"], path)
                    found[key] = count
    return found


def seen(result: Read) -> dict[tuple[str, int, str], int]:
    """The same of what was read."""
    found = {}
    for batch in result.batches:
        for k, column in enumerate(batch.columns):
            for n, port in enumerate(batch.ports.port):
                if batch.state[k, n] == 0:
                    key = (port, int(batch.time_ns[n]), column.source)
                    found[key] = int(batch.values[k, n])
    return found


def last(values: dict[tuple[str, int, str], int]) -> dict[tuple[str, str], int]:
    """The newest value of each series."""
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    for (port, time, path), value in values.items():
        if (port, path) not in newest or time >= newest[port, path][0]:
            newest[port, path] = (time, value)
    return {key: value for key, (_, value) in newest.items()}


@settings(max_examples=50)
@given(records, st.integers(1, 400))
def test_lines_are_read_exactly(batch: list[list[dict[str, Any]]], step: int) -> None:
    """However lines repeat each other's text, and wherever reads end, values are those of JSON."""
    result = read(lines(batch * 2), step=step)
    assert result.bad == []
    assert last(seen(result)) == last(expected(batch))


@settings(max_examples=50)
@given(records)
def test_the_fast_way_reads_what_the_slow_way_reads(batch: list[list[dict[str, Any]]]) -> None:
    """Pretty-printed records, which are parsed in full, give the same as one-line records."""
    pretty = "\n".join(json.dumps(record, indent=2, ensure_ascii=False) for record in batch * 2)
    fast, slow = read(lines(batch * 2)), read(pretty.encode())
    assert fast.all() == slow.all()
    assert fast.recorder.samples.rounded == slow.recorder.samples.rounded
    assert fast.recorder.samples.absent == slow.recorder.samples.absent


STATE = "/interfaces/interface/state/"
levels = st.dictionaries(
    st.sampled_from([f"{STATE}oper-status", f"{STATE}admin-status", f"{STATE}mtu"]),
    st.sampled_from(["UP", "DOWN", "x,y", 1, 0, True, None, "a:b", 9000]),
    min_size=1,
)
mixed = st.builds(
    lambda port, values, more, time: {
        "name": "sub",
        "timestamp": time,
        "tags": {"interface_name": port, "source": "leaf1:6030"},
        "values": {**{ROOT + leaf: value for leaf, value in values.items()}, **more},
    },
    ports,
    st.dictionaries(st.sampled_from(LEAVES), counts, max_size=3),
    levels,
    st.integers(0, 50).map(lambda n: T0 + n),
)


@settings(max_examples=50)
@given(st.lists(st.lists(mixed, min_size=1, max_size=3), min_size=1, max_size=6))
def test_levels_among_counts(batch: list[list[dict[str, Any]]]) -> None:
    """States and numbers mixed in one event are read the same in the fast and in the slow way."""
    pretty = "\n".join(json.dumps(record, indent=2, ensure_ascii=False) for record in batch * 2)
    fast, slow = read(lines(batch * 2)), read(pretty.encode())
    assert fast.all() == slow.all()
    assert fast.recorder.samples.absent == slow.recorder.samples.absent


subtree = st.one_of(
    st.dictionaries(st.sampled_from(LEAVES), counts, min_size=1, max_size=3).map(
        lambda leaves: ("state/counters", {"interfaces/interface/state/counters": leaves})
    ),
    st.tuples(st.sampled_from(LEAVES), counts).map(
        lambda pair: (f"state/counters/{pair[0]}", {pair[0]: pair[1]})
    ),
    st.tuples(ports, counts, st.lists(st.integers(), max_size=2)).map(
        lambda three: (
            "",
            {"x": {"oc:subs": [{"name": three[0], "in-octets": three[1]}], "list": three[2]}},
        )
    ),
    st.sampled_from([("state/oper-status", {"x": "UP"}), ("state/mtu", {"x": 5}), ("y", {})]),
    st.just(("state/counters/in-pkts", {"x": {"digits": 50, "precision": 0}})),
)
messages = st.builds(
    lambda port, parts, time, late: {
        "source": "leaf1:6030",
        "timestamp": time,
        "time": "whatever",
        "recv-timestamp": time + late,
        "prefix": f"interfaces/interface[name={port}]",
        "updates": [{"Path": path, "values": values} for path, values in parts],
    },
    st.sampled_from(["Ethernet1", "eth1/2:3=4 x", "é"]),
    st.lists(subtree, min_size=1, max_size=4),
    st.integers(0, 50).map(lambda n: T0 + n),
    st.integers(0, 5),
)


@settings(max_examples=80)
@given(st.lists(messages, min_size=1, max_size=6), st.integers(1, 500))
def test_messages_fast_and_slow(batch: list[dict[str, Any]], step: int) -> None:
    """One-line messages, flat or with subtrees, give what pretty-printed ones give."""
    pretty = "\n".join(json.dumps(one, indent=2, ensure_ascii=False) for one in batch * 2)
    compact = (json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in batch * 2)
    fast = read("".join(f"{line}\n" for line in compact).encode(), step=step)
    slow = read(pretty.encode())
    assert fast.bad == slow.bad == []
    assert fast.all() == slow.all()
    assert fast.recorder.samples.absent == slow.recorder.samples.absent
    assert fast.recorder.samples.rounded == slow.recorder.samples.rounded


@settings(max_examples=80)
@given(records, st.data())
def test_damage_costs_only_what_it_hits(batch: list[list[dict[str, Any]]], data: Any) -> None:
    """Bytes changed, cut or put in anywhere: nothing raises, and a clean record after is read."""
    raw = bytearray(lines(batch))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        length = data.draw(st.integers(0, 30))
        raw[at : at + length] = data.draw(st.binary(max_size=12))
    good = {
        "name": "sub",
        "timestamp": T0 + 10**9,
        "tags": {"interface_name": "clean", "source": "leaf1:6030"},
        "values": {ROOT + "in-octets": 123},
    }
    after = lines([[good]])
    result = read(bytes(raw) + b"\n" + after + after)
    assert result.series("rx_bytes", "clean")[-1:] == [123]


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    """Any bytes at all are taken or reported, never raised."""
    read(data)
    gnmi.sniff(data)


fragments = st.sampled_from(
    [
        *(b"update: {", b"}", b"\n", b"[", b"{", b"]", b'"', b"\x00", b",", b"5", b'{"update":'),
        *(b"TAGS: [", b"FIELDS: [/a=%!s(float64=1)]", b"== getResponse:\n", b'elem: < name: "x" >'),
        *(b"Port Rx  PFC0  PFC1\n", b"Ethernet0  1,2  N/A\n", b"m,t=1 f=1u 5\n", b"/a/b[c=d]: 5\n"),
        b'{"COUNTERS:oid:0x1":{"SAI_PORT_STAT_IF_IN_OCTETS":"5"}}\n',
        b"[2021-08-05T06:53:41Z] /a/b = {\n",
        b'{"update":{"update":[{"path":{"elem":[{"name":"a"}]},"val":{"uintVal":"1"}}]}}\n',
    ]
)


@settings(max_examples=300)
@given(st.lists(fragments, max_size=25).map(b"".join), st.integers(1, 50))
def test_forms_run_together(data: bytes, step: int) -> None:
    """Pieces of every form in any order are taken or reported, however they are fed."""
    whole, pieces = read(data), read(data, step=step)
    assert whole.all() == pieces.all()
    assert [bad.reason for bad in whole.bad] == [bad.reason for bad in pieces.bad]


names = st.text(st.characters(categories=["Ll", "Lu"], include_characters="-_"), min_size=1)
names = names.filter(lambda name: name[0].isascii() and name[0].isalpha())
keys = st.dictionaries(names, st.text(max_size=8), max_size=2)


@given(st.lists(st.builds(Element, names, keys), min_size=1, max_size=5))
def test_paths_survive_being_written(elements: list[Element]) -> None:
    """A path as text, read back, is the same path, whatever its keys hold."""
    assert gnmi_path.split(gnmi_path.text(elements)) == elements


@given(st.text(max_size=200))
def test_prototext_parses_or_refuses(text: str) -> None:
    """Any text is a message or a `ValueError`."""
    try:
        assert isinstance(prototext.parse(text), dict)
    except ValueError as error:
        assert str(error)  # noqa: PT017


def flood(first: int) -> bytes:
    """A hundred records with a text of their own each."""
    record = '[{"name":"s","timestamp":%d,"tags":{"interface_name":"e%dx"},"values":{"/x":1}}]\n'
    return "".join(record % (T0, n) for n in range(first, first + 100)).encode()


def test_a_flood_of_new_tags_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that invents a text per record costs memory up to a limit, and locks nobody out."""
    monkeypatch.setattr(line_forms, "_MAX_TEXT", 20_000)
    bad: list[BadRecord] = []
    decoder = gnmi.GnmiDecoder(read(b"").recorder, bad.append)
    most = 0
    for n in range(0, 20_000, 100):
        decoder.feed(flood(n), 0)
        most = max(most, len(decoder.forms))
    assert bad == []
    assert 100 <= most < 1_000
    sizes = []
    for _ in range(4):
        decoder.feed(flood(0), 0)
        sizes.append(len(decoder.forms))
    assert sizes[-1] == sizes[-2] >= 100
