"""Saved walks."""

from __future__ import annotations

import pytest

from fabricmon.formats.snmp import ber, snmprec
from fabricmon.formats.snmp.snmp import Varbind

PREFIX = (1, 3, 6, 1, 2, 1)
VARBINDS = [
    Varbind((*PREFIX, 1, 1, 0), ber.OCTETS, b"SONiC"),
    Varbind((*PREFIX, 1, 2, 0), ber.OID, (1, 3, 6, 1, 4, 1, 9)),
    Varbind((*PREFIX, 1, 3, 0), ber.TIMETICKS, 4_000_000_000),
    Varbind((*PREFIX, 2, 2, 1, 6, 1), ber.OCTETS, b"\x00\x1b!\xbb\xe6\xf0"),
    Varbind((*PREFIX, 31, 1, 1, 1, 6, 1), ber.COUNTER64, 2**64 - 1),
    Varbind((*PREFIX, 31, 1, 1, 1, 18, 1), ber.OCTETS, b"a|b"),
]


def test_what_is_written_is_read_again() -> None:
    """Types, octets that are no text, and values with the separator in them survive."""
    lines = list(snmprec.write_snmprec(reversed(VARBINDS)))
    assert snmprec.is_snmprec("".join(lines))
    problems: list[tuple[int, str]] = []
    found = list(snmprec.read_snmprec(lines, lambda *problem: problems.append(problem)))
    assert (found, problems) == (VARBINDS, [])


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "1.3.6|4",
        "1.3.x|2|5",
        "1.3.6.1|99|5",
        "1.3.6.1|2|<private>",
        "1.3.6.1|4x|0g",
        "1.3.6.1|2:numeric|rate=5",
    ],
)
def test_a_bad_line_costs_itself_and_is_named(line: str) -> None:
    """The line after it is read, and the problem carries its number."""
    problems: list[int] = []
    lines = [f"{line}\n", "1.3.6.1.2.1.1.3.0|67|5\n"]
    found = list(snmprec.read_snmprec(lines, lambda number, _: problems.append(number)))
    assert [varbind.value for varbind in found] == [5]
    assert problems == [1]


def test_snmpwalk_text_is_read() -> None:
    """Numeric output of Net-SNMP, with values of several lines and ends of the tree."""
    text = (
        ".1.3.6.1.2.1.1.1.0 = STRING: Linux\nsecond line\n"
        ".1.3.6.1.2.1.1.2.0 = OID: .1.3.6.1.4.1.8072\n"
        ".1.3.6.1.2.1.1.3.0 = Timeticks: (8311) 0:01:23.11\n"
        ".1.3.6.1.2.1.2.2.1.6.2 = Hex-STRING: 02 42 AC 11 00 02 \n"
        ".1.3.6.1.2.1.2.2.1.8.1 = INTEGER: up(1)\n"
        '.1.3.6.1.2.1.31.1.1.1.18.1 = ""\n'
        ".1.3.6.1.2.1.31.1.1.1.6.1 = Counter64: 18446744073709551615\n"
        ".1.3.6.1.9 = No Such Object available on this agent at this OID\n"
    )
    assert snmprec.is_walk(text)
    problems: list[tuple[int, str]] = []
    lines = text.splitlines(keepends=True)
    found = {v.oid: v for v in snmprec.read_walk(lines, lambda *p: problems.append(p))}
    assert problems == []
    assert found[1, 3, 6, 1, 2, 1, 1, 1, 0].value == b"Linux\nsecond line"
    assert found[1, 3, 6, 1, 2, 1, 1, 2, 0].value == (1, 3, 6, 1, 4, 1, 8072)
    assert found[1, 3, 6, 1, 2, 1, 1, 3, 0].value == 8311
    assert found[1, 3, 6, 1, 2, 1, 2, 2, 1, 6, 2].value == bytes.fromhex("0242ac110002")
    assert found[1, 3, 6, 1, 2, 1, 2, 2, 1, 8, 1].value == 1
    assert found[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 18, 1].value == b""
    assert found[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6, 1].value == 2**64 - 1
    assert not found[1, 3, 6, 1, 9].exists


@pytest.mark.parametrize("line", ["hello", ".1.3.6.1 = WHAT: 5", ".1.3.6.1 = INTEGER: none"])
def test_a_bad_line_of_a_walk_is_named(line: str) -> None:
    """What is no `OID = TYPE: value` is reported with its line."""
    problems: list[int] = []
    assert not list(snmprec.read_walk([line], lambda number, _: problems.append(number)))
    assert problems == [1]
