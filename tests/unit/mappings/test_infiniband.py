"""Which field feeds which counter, by what the device can count."""

from __future__ import annotations

from fabricmon.mappings import infiniband

ERRORS = {"SymbolErrorCounter": 3, "PortXmitWait": 41}
TRAFFIC = {"PortXmitData": 10, "PortRcvData": 20}


def columns(
    groups: dict[str, dict[str, int | None]], cap: int | None, cap2: int | None
) -> dict[str, tuple[int | None, int]]:
    """{counter: (value, bits)}."""
    found = infiniband.field_names("pma").values(groups, cap, cap2)
    return {column.counter.id: (value, column.bits) for column, value in found}


def test_64_bit_transmit_wait_is_preferred_where_the_device_has_it() -> None:
    """CapMask2 bit 1 makes the extended attribute the source of errors and transmit-wait."""
    got = columns({"PortCountersExtended": TRAFFIC | ERRORS}, 0x5300, 2)
    assert got["tx_wait_ticks"] == (41, 64)
    assert got["tx_bytes"] == (10, 64)


def test_without_the_capability_the_32_bit_field_is_read() -> None:
    """A zero that an older tool prints for an unsupported field is not taken."""
    groups = {"PortCountersExtended": {**TRAFFIC, "PortXmitWait": 0}, "PortCounters": ERRORS}
    got = columns(groups, 0x1300, 0)
    assert got["tx_wait_ticks"] == (41, 32)
    assert got["symbol_errors"] == (3, 16)


def test_a_device_that_does_not_count_transmit_wait_has_no_number() -> None:
    """With CapMask bit 12 clear the printed zero is unsupported, not zero."""
    assert columns({"PortCounters": {"PortXmitWait": 0}}, 0x0300, 0)["tx_wait_ticks"][0] is None


def test_without_capability_masks_the_presence_of_a_field_decides() -> None:
    """Tools that print no masks are believed for what they print."""
    assert columns({"PortCounters": {"PortXmitWait": 7}}, None, None)["tx_wait_ticks"] == (7, 32)


def test_every_width_sticks_at_its_own_top() -> None:
    """All counters of the attribute saturate, at the widths of the specification."""
    fields = dict(infiniband.field_names("pma").fields("PortCounters"))
    assert {column.saturates for column in fields.values()} == {True}
    assert fields["ExcessiveBufferOverrunErrors"].bits == 4
    assert fields["LinkDownedCounter"].bits == 8
    assert fields["SymbolErrorCounter"].bits == 16


def test_the_tick_is_known_by_device_and_unknown_otherwise() -> None:
    """Quantum counts 8 bytes of the port at any width, Switch-IB 32 bytes a lane."""
    assert infiniband.tick_bytes(0xD2F2, 4) == 8.0
    assert infiniband.tick_bytes(0xD2F0, 2) == 8.0
    assert infiniband.tick_bytes(0xCF08, 4) == 128.0
    assert infiniband.tick_bytes(0x101B, 4) == 0.0


def test_words_become_bytes_by_scale() -> None:
    """PortXmitData counts 4-byte words at any width."""
    (column,) = [
        c
        for f, c in infiniband.field_names("pma").fields("PortCountersExtended")
        if f == "PortXmitData"
    ]
    assert (column.scale, column.source) == (4, "PortCountersExtended.PortXmitData")
