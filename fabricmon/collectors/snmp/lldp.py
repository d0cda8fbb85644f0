"""The fabric's shape from LLDP-MIB, which lies outside 1.3.6.1.

Nothing in it can be taken at its word: local port numbers are not ifIndex, several neighbours stand
on one port, port ids are names, MAC addresses, or the peer's ifIndex written as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabricmon.collectors.snmp.enrich import walk_columns
from fabricmon.errors import PollError
from fabricmon.mappings.snmp import oid
from fabricmon.mappings.snmp_walk import Walk, printable
from fabricmon.model.topology import Link, Node, PortFacts, PortId, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabricmon.collectors.snmp.enrich import Device
    from fabricmon.collectors.snmp.ports import PortIndex
    from fabricmon.collectors.snmp.session import Session
    from fabricmon.formats.snmp.ber import Oid

_REMOTE = oid("1.0.8802.1.1.2.1.4.1.1")
_LOCAL = oid("1.0.8802.1.1.2.1.3.7.1")
_CHASSIS_KIND, _CHASSIS, _PORT_KIND, _PORT, _PORT_DESCR, _SYS_NAME, _SYS_DESCR, _CAPS = (
    (*_REMOTE, n) for n in (4, 5, 6, 7, 8, 9, 10, 12)
)
_LOC_KIND, _LOC_PORT, _LOC_DESCR = ((*_LOCAL, n) for n in (2, 3, 4))
_BRIDGE_PORT = oid("1.3.6.1.2.1.17.1.4.1.2")
_COLUMNS = (
    _CHASSIS_KIND, _CHASSIS, _PORT_KIND, _PORT, _PORT_DESCR, _SYS_NAME, _SYS_DESCR, _CAPS,
    _LOC_KIND, _LOC_PORT, _LOC_DESCR, _BRIDGE_PORT,
)  # fmt: skip

_MAC_CHASSIS, _MAC_PORT, _NAME_PORT, _LOCAL_PORT = 4, 3, 5, 7
_UNSAID = "not advertised"
_SWITCHING = 0x28  # the bits for bridge and router in the first octet of the capabilities
_HOST_SYSTEM = re.compile(
    r"\b(Ubuntu|Debian GNU|Red Hat|Rocky|CentOS|AlmaLinux|SUSE|Windows|ESXi|ConnectX|BlueField)\b"
)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One row of the table of neighbours, as sent."""

    local: int
    """The local port number, whatever the device means by it."""
    time_mark: int
    chassis_kind: int
    chassis: bytes
    port_kind: int
    port: bytes
    port_descr: str
    sys_name: str
    sys_descr: str
    capabilities: int | None

    @property
    def label(self) -> str:
        """What to call the neighbour where nobody knows it better."""
        if self.sys_name:
            return self.sys_name
        by_mac = self.chassis_kind == _MAC_CHASSIS
        return _address_text(self.chassis) if by_mac else printable(self.chassis)

    @property
    def kind(self) -> str:
        """`switch` or `host`, by its capabilities; hosts that bridge for containers are hosts."""
        if self.capabilities is None:
            return "host" if _HOST_SYSTEM.search(self.sys_descr) else "switch"
        switching = bool(self.capabilities & _SWITCHING)
        return "switch" if switching and not _HOST_SYSTEM.search(self.sys_descr) else "host"


async def neighbours(session: Session) -> Walk:
    """Walk the LLDP tables; what a device does not have is simply not there."""
    found, lost = await walk_columns(session, _COLUMNS)
    if not found and lost:
        reason = next(iter(lost))
        raise PollError(reason, "the table of neighbours was not answered")
    return Walk({v.oid: v.value for v in found.values() if isinstance(v.value, int | bytes)})


def rows(seen: Walk) -> list[Neighbour]:
    """Every neighbour; the newest row where one stands there twice under different time marks."""
    newest: dict[tuple[int, int], Neighbour] = {}
    for suffix, kind in seen.column(_PORT_KIND):
        if len(suffix) != 3 or not isinstance(kind, int):
            continue
        mark, local, number = suffix
        old = newest.get((local, number))
        if old is None or mark >= old.time_mark:
            newest[local, number] = _row(seen, suffix, local, mark, kind)
    return list(newest.values())


def _row(seen: Walk, suffix: Oid, local: int, mark: int, kind: int) -> Neighbour:
    caps = seen.octets((*_CAPS, *suffix))
    name = seen.text((*_SYS_NAME, *suffix))
    return Neighbour(
        local,
        mark,
        seen.number((*_CHASSIS_KIND, *suffix)) or 0,
        seen.octets((*_CHASSIS, *suffix)),
        kind,
        seen.octets((*_PORT, *suffix)),
        seen.text((*_PORT_DESCR, *suffix)),
        "" if name.lower() == _UNSAID else name,
        seen.text((*_SYS_DESCR, *suffix)),
        caps[0] if caps else None,
    )


def local_port(ports: PortIndex, seen: Walk, number: int) -> str | None:
    """Our port behind a local port number: by its id, then as ifIndex, then as bridge port."""
    raw, kind = seen.octets((*_LOC_PORT, number)), seen.number((*_LOC_KIND, number))
    found = ports.by_mac(_address(raw) or b"") if kind == _MAC_PORT else None
    if found is None:
        found = ports.by_text(printable(raw))
    if found is None:
        found = ports.by_text(seen.text((*_LOC_DESCR, number)))
    if found is None:
        found = ports.names.get(number)
    if found is None:
        found = ports.names.get(seen.number((*_BRIDGE_PORT, number)) or -1)
    return found


def remote_port(row: Neighbour, ports: PortIndex | None) -> str:
    """The neighbour's port: its own name for it where we know its ports, else the best text."""
    text = _address_text(row.port) if row.port_kind == _MAC_PORT else printable(row.port)
    if ports is not None:
        found = _known_port(row, ports, text)
        if found is not None:
            return found
    named = bool(row.port_descr) and " " not in row.port_descr
    unspeaking = row.port_kind == _MAC_PORT or (row.port_kind == _LOCAL_PORT and text.isdigit())
    return row.port_descr if unspeaking and named else text


def _known_port(row: Neighbour, ports: PortIndex, text: str) -> str | None:
    if row.port_kind == _MAC_PORT:
        found = ports.by_mac(_address(row.port) or b"") or ports.by_text(text)
    elif row.port_kind == _LOCAL_PORT:
        found = ports.by_number(text) or ports.by_text(text)
    else:
        found = ports.by_text(text)
    return found or ports.by_text(row.port_descr)


def topology(device: Device, seen: Walk, others: Iterable[Device]) -> Topology:
    """What one device knows: itself, its ports, and the cable behind each port."""
    assert device.survey is not None
    book = _Book(others)
    ports = device.survey.index
    best: dict[str, Neighbour] = {}
    for row in rows(seen):
        port = local_port(ports, seen, row.local)
        if port is None:
            continue
        old = best.get(port)
        if old is None or book.rank(row) > book.rank(old):
            best[port] = row
    nodes = {device.name: Node(device.name, "switch", guid=device.survey.chassis)}
    links = []
    speeds = ports.speeds
    for port, row in sorted(best.items()):
        peer = book.find(row)
        name = peer.name if peer is not None else row.label
        if not name or name == device.name:
            continue
        kind = "switch" if peer is not None else row.kind
        nodes.setdefault(name, Node(name, kind, guid=row.chassis.hex()))
        far = remote_port(row, peer.survey.index if peer is not None and peer.survey else None)
        links.append(Link(PortId(device.name, port), PortId(name, far), speeds.get(port, 0.0)))
    facts = (PortFacts(PortId(device.name, port), bps) for port, bps in speeds.items())
    return Topology(tuple(nodes.values()), tuple(links), tuple(facts))


class _Book:
    """All devices that have said who they are, by what their neighbours call them."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = [device for device in devices if device.survey is not None]
        self._by_chassis: dict[str, Device | None] = {}
        self._by_name: dict[str, Device | None] = {}
        for device in self._devices:
            assert device.survey is not None
            if device.survey.chassis:
                _once(self._by_chassis, device.survey.chassis, device)
            for name in {device.survey.sys_name, device.survey.sys_name.partition(".")[0]}:
                if name:
                    _once(self._by_name, name, device)

    def find(self, row: Neighbour) -> Device | None:
        """The polled device that a neighbour is, if there is exactly one."""
        found = self._by_chassis.get(row.chassis.hex()) if row.chassis else None
        if found is None:
            found = self._by_name.get(row.sys_name)
        if found is None:
            found = self._by_name.get(row.sys_name.partition(".")[0])
        return found

    def rank(self, row: Neighbour) -> tuple[bool, bool, bool, int]:
        """Which of several neighbours on one port is the one at the other end of the cable."""
        known = self.find(row) is not None
        return (known, row.port_kind == _NAME_PORT, bool(row.sys_name), row.time_mark)


def _once(index: dict[str, Device | None], key: str, device: Device) -> None:
    index[key] = None if key in index and index[key] is not device else device


def _address(raw: bytes) -> bytes | None:
    """The six octets of what is said to be a MAC address: some agents send it as text."""
    if len(raw) == 6:
        # Some send a name and call it an address; no vendor's addresses are all letters and digits.
        return None if raw.isalnum() else raw
    digits = re.sub(rb"[:.-]", b"", raw)
    return bytes.fromhex(digits.decode()) if re.fullmatch(rb"[0-9A-Fa-f]{12}", digits) else None


def _address_text(raw: bytes) -> str:
    """An address as `02:00:…`; the text itself where it is none."""
    address = _address(raw)
    return address.hex(":") if address is not None else printable(raw)
