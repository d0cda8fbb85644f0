"""InfiniBand management datagrams: 256 bytes, as rows of a matrix, both ways.

Layouts are those of the InfiniBand Architecture Specification, volume 1 (chapters 13, 14, 16);
`tests/wire` holds them against libibmad. Offsets count bits from the start of the attribute,
which stands at byte 64 of the datagram for performance and subnet management alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fabricmon.formats.infiniband.ibfabric import IbNode, IbPort

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SIZE = 256
DATA = 64
"""Where the attribute begins."""
UMAD_HEADER = 64
"""What the kernel's interface puts before each datagram (struct ib_user_mad)."""

SMI_LID, SMI_DIRECT, PERFORMANCE = 0x01, 0x81, 0x04
"""Management classes: subnet management by LID and by direct route, performance."""
GET = 0x01
PERMISSIVE_LID = 0xFFFF
"""The address of whoever is reached: of datagrams that carry their own path."""

NODE_DESCRIPTION, NODE_INFO, SWITCH_INFO, PORT_INFO = 0x10, 0x11, 0x12, 0x15
MELLANOX_PORT_INFO = 0xFF90
CLASS_PORT_INFO, SAMPLES_CONTROL = 0x01, 0x10

ATTRIBUTES: dict[str, int] = {
    "PortCounters": 0x12,
    "PortRcvErrorDetails": 0x15,
    "PortXmitDiscardDetails": 0x16,
    "PortVLXmitWaitCounters": 0x1C,
    "PortCountersExtended": 0x1D,
    "PortExtendedSpeedsCounters": 0x1F,
    "PortRcvConCtrl": 0x31,
    "PortXmitConCtrl": 0x34,
}
"""Performance attributes that are read, by name."""


class Field(NamedTuple):
    """A field of an attribute: offset and width in bits."""

    name: str
    offset: int
    bits: int


def _row(first: int, bits: int, names: str) -> list[Field]:
    """Fields of one width that follow each other."""
    return [Field(name, first + i * bits, bits) for i, name in enumerate(names.split())]


FIELDS: dict[str, list[Field]] = {
    "PortCounters": [
        Field("SymbolErrorCounter", 32, 16),
        Field("LinkErrorRecoveryCounter", 48, 8),
        Field("LinkDownedCounter", 56, 8),
        *_row(64, 16, "PortRcvErrors PortRcvRemotePhysicalErrors PortRcvSwitchRelayErrors"),
        Field("PortXmitDiscards", 112, 16),
        Field("PortXmitConstraintErrors", 128, 8),
        Field("PortRcvConstraintErrors", 136, 8),
        Field("LocalLinkIntegrityErrors", 152, 4),
        Field("ExcessiveBufferOverrunErrors", 156, 4),
        Field("QP1Dropped", 160, 16),
        Field("VL15Dropped", 176, 16),
        *_row(192, 32, "PortXmitData PortRcvData PortXmitPkts PortRcvPkts PortXmitWait"),
    ],
    "PortCountersExtended": [
        *_row(64, 64, "PortXmitData PortRcvData PortXmitPkts PortRcvPkts PortUnicastXmitPkts"),
        *_row(384, 64, "PortUnicastRcvPkts PortMulticastXmitPkts PortMulticastRcvPkts"),
        *_row(576, 64, "SymbolErrorCounter LinkErrorRecoveryCounter LinkDownedCounter"),
        *_row(768, 64, "PortRcvErrors PortRcvRemotePhysicalErrors PortRcvSwitchRelayErrors"),
        *_row(960, 64, "PortXmitDiscards PortXmitConstraintErrors PortRcvConstraintErrors"),
        *_row(1152, 64, "LocalLinkIntegrityErrors ExcessiveBufferOverrunErrors VL15Dropped"),
        *_row(1344, 64, "PortXmitWait QP1Dropped"),
    ],
    "PortRcvErrorDetails": _row(
        32,
        16,
        "PortLocalPhysicalErrors PortMalformedPktErrors PortBufferOverrunErrors"
        " PortDLIDMappingErrors PortVLMappingErrors PortLoopingErrors",
    ),
    "PortXmitDiscardDetails": _row(
        32,
        16,
        "PortInactiveDiscards PortNeighborMTUDiscards PortSwLifetimeLimitDiscards"
        " PortSwHOQLifetimeLimitDiscards",
    ),
    "PortVLXmitWaitCounters": [Field(f"PortVLXmitWait{vl}", 32 + 16 * vl, 16) for vl in range(16)],
    "PortExtendedSpeedsCounters": _row(
        1120,
        32,
        "PortFECCorrectableBlockCtr PortFECUncorrectableBlockCtr PortFECCorrectedSymbolCtr",
    ),
    "PortRcvConCtrl": _row(32, 32, "PortPktRcvFECN PortPktRcvBECN"),
    "PortXmitConCtrl": [Field("PortXmitTimeCong", 32, 32)],
}
"""The counts of each attribute."""

CLASS_PORT_INFO_FIELDS = [Field("CapMask", 16, 16), Field("CapMask2", 32, 27)]
SAMPLES_FIELDS = [Field("Tick", 16, 8)]
NODE_INFO_FIELDS = [
    Field("NodeType", 16, 8),
    Field("NumPorts", 24, 8),
    Field("SystemGuid", 32, 64),
    Field("Guid", 96, 64),
    Field("PortGuid", 160, 64),
    Field("DevId", 240, 16),
    Field("Revision", 256, 32),
    Field("LocalPort", 288, 8),
    Field("VendorId", 296, 24),
]
PORT_INFO_FIELDS = [
    Field("Lid", 128, 16),
    Field("SMLid", 144, 16),
    Field("CapMask", 160, 32),
    Field("LocalPort", 224, 8),
    Field("LinkWidthEnabled", 232, 8),
    Field("LinkWidthSupported", 240, 8),
    Field("LinkWidthActive", 248, 8),
    Field("LinkSpeedSupported", 256, 4),
    Field("LinkState", 260, 4),
    Field("PhysLinkState", 264, 4),
    Field("LinkSpeedActive", 280, 4),
    Field("LinkSpeedEnabled", 284, 4),
    Field("NeighborMTU", 288, 4),
    Field("VLCap", 296, 4),
    Field("MtuCap", 332, 4),
    Field("OperVLs", 344, 4),
    Field("CapMask2", 480, 16),
    Field("LinkSpeedExtActive", 496, 4),
    Field("LinkSpeedExtSupported", 500, 4),
    Field("LinkSpeedExtEnabled", 507, 5),
    Field("LinkSpeedExtActive2", 449, 2),
    Field("LinkSpeedExtSupported2", 451, 2),
    Field("LinkSpeedExtEnabled2", 453, 3),
]

MELLANOX_PORT_FIELDS = [Field("LinkSpeedActive", 120, 8)]
FDR10 = 1
"""Bit of the vendor's LinkSpeedActive."""

WIDTHS = {1: "1x", 2: "4x", 4: "8x", 8: "12x", 16: "2x"}
SPEEDS = {1: "SDR", 2: "DDR", 4: "QDR"}
EXTENDED_SPEEDS = {1: "FDR", 2: "EDR", 4: "HDR", 8: "NDR"}
EXTENDED_SPEEDS_2 = {1: "XDR"}
_KINDS = {1: "host", 2: "switch", 3: "router"}
INIT = 2
"""LinkState from which on a cable's other end answers."""


def decode(data: NDArray[np.uint8], fields: Sequence[Field]) -> NDArray[np.uint64]:
    """uint64[F,M]: fields of M attributes (uint8[M, at least the attribute's bytes])."""
    out = np.empty((len(fields), len(data)), np.uint64)
    for k, (_, offset, bits) in enumerate(fields):
        first, last = offset // 8, (offset + bits + 7) // 8
        whole = f">u{last - first}"
        if last - first in {2, 4, 8}:
            value = np.ascontiguousarray(data[:, first:last]).view(whole)[:, 0].astype(np.uint64)
        else:
            value = np.zeros(len(data), np.uint64)
            for byte in range(first, last):
                value = value << np.uint64(8) | data[:, byte]
        value >>= np.uint64(last * 8 - offset - bits)
        out[k] = value & np.uint64((1 << bits) - 1)
    return out


def encode(data: NDArray[np.uint8], fields: Sequence[Field], values: NDArray[np.uint64]) -> None:
    """Write values uint64[F,M] into M attributes, each clipped to its field's width."""
    for value, (_, offset, bits) in zip(values, fields, strict=True):
        last = (offset + bits + 7) // 8
        top = np.uint64((1 << bits) - 1)
        shift = last * 8 - offset - bits
        left = np.minimum(value, top)
        byte, at, take = last - 1, shift, bits
        while take > 0:
            part = min(8 - at, take)
            mask = ((1 << part) - 1) << at
            own = (left.astype(np.uint8) & np.uint8((1 << part) - 1)) << np.uint8(at)
            data[:, byte] = (data[:, byte] & np.uint8(0xFF & ~mask)) | own
            left = left >> np.uint64(part)
            byte, at, take = byte - 1, 0, take - part


def requests(class_: int, attribute: int, modifiers: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """uint8[M,256]: Get requests that differ in their attribute modifier."""
    out = np.zeros((len(modifiers), SIZE), np.uint8)
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = 1, class_, 1, GET
    out[:, 16:18] = (attribute >> 8, attribute & 0xFF)
    out[:, 20:24] = modifiers.astype(">u4").view(np.uint8).reshape(-1, 4)
    return out


def counter_requests(attribute: int, ports: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """uint8[M,256]: performance requests for these port numbers."""
    out = requests(PERFORMANCE, attribute, np.zeros(len(ports), np.uint32))
    out[:, DATA + 1] = ports
    return out


def direct_requests(
    attribute: int, modifiers: NDArray[np.uint32], paths: Sequence[bytes]
) -> NDArray[np.uint8]:
    """uint8[M,256]: subnet management requests along direct routes (port numbers to leave by)."""
    out = requests(SMI_DIRECT, attribute, modifiers)
    out[:, 32:36] = 0xFF  # no part of the way is routed by LID
    for row, path in zip(out, paths, strict=True):
        row[7] = len(path)
        row[129 : 129 + len(path)] = np.frombuffer(path, np.uint8)
    return out


def status(mads: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """uint16[M]: the status of replies, without the direction bit of direct routes."""
    return mads[:, 4:6].copy().view(">u2")[:, 0].astype(np.uint16) & np.uint16(0x7FFF)


def umad_records(
    mads: NDArray[np.uint8], lids: NDArray[np.uint16], pairs: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """uint8[M,320]: requests as the kernel's user interface takes them.

    Queue pair 0 (`pairs`) is subnet management, 1 is everything else, with the well-known Q_Key.
    """
    out = np.zeros((len(mads), UMAD_HEADER + SIZE), np.uint8)
    out[:, 23] = pairs
    out[:, 24] = pairs << 7
    out[:, 25] = pairs
    out[:, 28:30] = lids.astype(">u2").view(np.uint8).reshape(-1, 2)
    out[:, UMAD_HEADER:] = mads
    return out


def node_of(values: NDArray[np.uint64], description: bytes) -> tuple[IbNode, int, int]:
    """(node, port number the request came in by, that port's GUID) from one NodeInfo column."""
    kind, ports, system, guid, port_guid, device, _, local, vendor = map(int, values)
    node = IbNode(
        guid,
        _KINDS.get(kind, "host"),
        description.split(b"\0", 1)[0].decode("latin-1"),
        device,
        vendor,
        system,
        ports,
    )
    return node, local, port_guid


def port_of(number: int, values: NDArray[np.uint64]) -> IbPort:
    """One port from one PortInfo column."""
    info = dict(zip((f.name for f in PORT_INFO_FIELDS), map(int, values), strict=True))
    up = info["LinkState"] >= INIT
    extended = EXTENDED_SPEEDS.get(info["LinkSpeedExtActive"], "")
    extended = EXTENDED_SPEEDS_2.get(info["LinkSpeedExtActive2"], extended)
    speed = extended or SPEEDS.get(info["LinkSpeedActive"], "???")
    width = WIDTHS.get(info["LinkWidthActive"], "???")
    return IbPort(number, 0, info["Lid"], width, speed, None, up)
