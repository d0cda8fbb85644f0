"""BER as SNMP uses it."""

from __future__ import annotations

import tracemalloc

import pytest

from fabricmon.errors import FormatError
from fabricmon.formats.snmp import ber


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (0, "020100"),
        (127, "02017f"),
        (128, "02020080"),
        (-1, "0201ff"),
        (2**63, "0209008000000000000000"),
    ],
)
def test_integers_are_shortest_and_keep_their_sign(value: int, octets: str) -> None:
    """128 takes two octets: agents read a max-repetitions of 0x80 as negative."""
    assert ber.integer(value).hex() == octets


@pytest.mark.parametrize("count", [0, 127, 128, 255, 256, 65_535, 70_000])
def test_lengths_round_trip(count: int) -> None:
    """Short and long lengths are read back as written."""
    element = ber.tlv(ber.OCTETS, b"x" * count)
    tag, start, stop = ber.header(element, 0, len(element))
    assert (tag, stop - start, stop) == (ber.OCTETS, count, len(element))


@pytest.mark.parametrize(
    "text", ["1.3", "1.3.6.1.2.1.31.1.1.1.6.436207616", "2.999.3", "1.0.8802.1.1.2", "0.0"]
)
def test_oids_round_trip(text: str) -> None:
    """OIDs with large numbers and with every first arc survive."""
    oid = ber.parse_oid(text)
    assert ber.decode_oid(ber.encode_oid(oid)) == oid
    assert ber.oid_text(oid) == text


@pytest.mark.parametrize("octets", ["", "2b86", "2b8fffffffff7f"])
def test_broken_oids_are_refused(octets: str) -> None:
    """An empty, a torn, and an overlong OID are format errors."""
    with pytest.raises(FormatError):
        ber.decode_oid(bytes.fromhex(octets))


def test_long_oids_leave_nothing_in_memory() -> None:
    """An agent that makes up long OIDs, or pads their numbers, does not fill what is remembered."""
    tracemalloc.start()
    for number in range(100):
        oid = (1, 3, *([100_000 + number] * 100), 7)
        assert ber.decode_oid(ber.encode_oid(oid)) == oid
        ber.decode_oid(b"\x2b" + b"\x80" * 10_000 + bytes([1 + number % 100, 1]))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 100_000


def test_overlong_oids_are_refused() -> None:
    """An OID of more numbers than SMI allows does not become a giant tuple."""
    with pytest.raises(FormatError, match="128"):
        ber.decode_oid(b"\x01" * 200)


@pytest.mark.parametrize("text", ["", "1", "x.y", "1.-3", "3.1", "1.99999999999"])
def test_what_is_no_oid_is_refused(text: str) -> None:
    """Text that is no OID is a format error that shows it."""
    with pytest.raises(FormatError, match="is not an OID"):
        ber.parse_oid(text)


@pytest.mark.parametrize("octets", ["30", "3080", "308500", "3005"])
def test_elements_beyond_their_data_are_refused(octets: str) -> None:
    """Indefinite, too long and torn lengths are format errors."""
    raw = bytes.fromhex(octets)
    with pytest.raises(FormatError):
        ber.header(raw, 0, len(raw))
