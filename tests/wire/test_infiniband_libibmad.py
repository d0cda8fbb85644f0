"""libibmad as the oracle of our datagram layouts."""

from __future__ import annotations

import ctypes
import ctypes.util

import pytest
from support import absent

from fabricmon.formats.infiniband import mad

pytestmark = pytest.mark.wire

# Our attribute -> a field of libibmad's enumeration that belongs to it, by name and offset.
ATTRIBUTES = {
    "PortCounters": mad.FIELDS["PortCounters"],
    "PortCountersExtended": mad.FIELDS["PortCountersExtended"],
    "PortXmitDiscardDetails": mad.FIELDS["PortXmitDiscardDetails"],
    "PortRcvErrorDetails": mad.FIELDS["PortRcvErrorDetails"],
    "PortVLXmitWaitCounters": mad.FIELDS["PortVLXmitWaitCounters"],
    "PortRcvConCtrl": mad.FIELDS["PortRcvConCtrl"],
    "PortXmitConCtrl": mad.FIELDS["PortXmitConCtrl"],
    "PortExtendedSpeedsCounters": mad.FIELDS["PortExtendedSpeedsCounters"],
    "NodeInfo": mad.NODE_INFO_FIELDS,
    "PortInfo": mad.PORT_INFO_FIELDS,
    "ClassPortInfo": mad.CLASS_PORT_INFO_FIELDS,
    "PortSamplesControl": mad.SAMPLES_FIELDS,
}
# libibmad's own spelling, and fields that older versions do not have.
ALIASES = {"CapMask2": ("CapabilityMask2",), "CapMask": ("CapMask", "CapabilityMask")}
NEWER = {"LinkSpeedExtActive2", "LinkSpeedExtSupported2", "LinkSpeedExtEnabled2"}
# 0.x and 44 of libibmad put QP1Dropped on top of VL15Dropped; the specification does not.
DISPUTED = {"QP1Dropped"}


@pytest.fixture(scope="module")
def known() -> set[tuple[str, int, int]]:
    """(name, first bit, last bit) of every field of the installed libibmad."""
    found = ctypes.util.find_library("ibmad")
    if found is None:
        absent("libibmad")
    library = ctypes.CDLL(found)
    library.mad_field_name.restype = ctypes.c_char_p
    library.mad_set_field.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint32]
    library.mad_set_field64.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_uint64,
    ]
    fields: set[tuple[str, int, int]] = set()
    for number in range(1, 657):  # up to the last field that every supported version has
        name = library.mad_field_name(number)
        if not name:
            continue
        buffer = ctypes.create_string_buffer(512)
        library.mad_set_field(buffer, 0, number, 0xFFFFFFFF)
        bits = [i for i in range(4096) if buffer.raw[i // 8] >> (7 - i % 8) & 1]
        fields.add((name.decode(), bits[0], bits[-1]))
    return fields


@pytest.mark.parametrize("attribute", list(ATTRIBUTES))
def test_every_field_stands_where_libibmad_has_it(
    attribute: str, known: set[tuple[str, int, int]]
) -> None:
    """Name, first bit and width agree with the library that infiniband-diags is built on."""
    for field in ATTRIBUTES[attribute]:
        if field.name in NEWER | DISPUTED:
            continue
        # libibmad writes 64-bit fields as two halves: the first 32 bits tell the place.
        last = field.offset + min(field.bits, 32) - 1
        names = ALIASES.get(field.name, (field.name,))
        assert any((name, field.offset, last) in known for name in names), field
