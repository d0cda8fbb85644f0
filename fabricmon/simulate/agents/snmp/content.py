"""What one simulated switch answers: its objects, and which numbers of the fabric stand in them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabricmon.formats.snmp import ber
from fabricmon.formats.snmp.snmp import Varbind
from fabricmon.mappings.snmp import Oid, Profile, oid
from fabricmon.mappings.snmp_backward import SAMPLED, Instance, instances
from fabricmon.simulate.agents.snmp.responder import SYS_UPTIME
from fabricmon.simulate.agents.snmp.table import Moving, Table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fabricmon.model.topology import Topology

_IF, _IFX = oid("1.3.6.1.2.1.2.2.1"), oid("1.3.6.1.2.1.31.1.1.1")
_LLDP_CHASSIS_KIND, _LLDP_CHASSIS = oid("1.0.8802.1.1.2.1.3.1.0"), oid("1.0.8802.1.1.2.1.3.2.0")
_LLDP_LOCAL, _LLDP_REMOTE = oid("1.0.8802.1.1.2.1.3.7.1"), oid("1.0.8802.1.1.2.1.4.1.1")
_ETHERNET, _UP, _BY_MAC, _BY_NAME = 6, 1, 3, 5
_CHASSIS_BY_MAC = 4
_SWITCH_CAPS, _HOST_CAPS = b"\x28\x00", b"\x01\x00"
_4G = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The far end of a port's cable."""

    device: str
    port: str
    is_host: bool


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch of the fabric as its agent presents it. N ports."""

    name: str
    ports: tuple[str, ...]
    speeds: tuple[float, ...]
    """bits per second; 0 unknown"""
    neighbours: tuple[Neighbour | None, ...]


def switches(topology: Topology) -> list[Switch]:
    """Every switch of a fabric, ports in natural order of their names."""
    hosts = {node.name for node in topology.nodes if node.kind == "host"}
    speeds = {facts.id: facts.speed_bps for facts in topology.ports}
    far = {}
    for link in topology.links:
        for near, other in ((link.a, link.b), (link.b, link.a)):
            far[near] = Neighbour(other.device, other.port, other.device in hosts)
            speeds[near] = speeds.get(near) or link.speed_bps
    by_device: dict[str, list[str]] = {}
    for port in speeds:
        by_device.setdefault(port.device, []).append(port.port)
    found = []
    for node in topology.nodes:
        if node.kind == "switch":
            ports = tuple(sorted(by_device.get(node.name, ()), key=_natural))
            ids = [(node.name, port) for port in ports]
            found.append(
                Switch(
                    node.name,
                    ports,
                    tuple(speeds[id_] for id_ in ids),  # type: ignore[index]
                    tuple(far.get(id_) for id_ in ids),  # type: ignore[call-overload]
                )
            )
    return found


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def mac(name: str) -> bytes:
    """A stable, locally administered address for a device or port."""
    return b"\x02" + hashlib.blake2b(name.encode(), digest_size=5).digest()


@dataclass(frozen=True, slots=True)
class Slot:
    """One number of the fabric that an agent shows: see `mappings.snmp_backward.Instance`."""

    counter: str
    queue: int
    port: int
    divisor: float
    bits: int
    wanted: int | None


class Content:
    """The table of one switch, and the slots its moving values come from."""

    def __init__(
        self, switch: Switch, profile: Profile, counted: Mapping[str, Collection[int]]
    ) -> None:
        """`counted`: the counters the fabric has, with their queues."""
        self.switch = switch
        self.slots = [slot for _, slot in _moving(switch, profile, counted)]
        self._profile, self._counted = profile, counted

    def table(self) -> Table:
        """Build the table: every object, encoded."""
        profile, likeness = self._profile, self._profile.likeness
        assert likeness is not None, f"{profile.name} does not say what it looks like"
        numbers = if_numbers(self.switch, profile)
        moving = [
            Moving(found.oid, found.tag, slot)
            for slot, (found, _) in enumerate(_moving(self.switch, profile, self._counted))
        ]
        fixed = {varbind.oid: varbind for varbind in _identity(self.switch, profile, numbers)}
        fixed.update((v.oid, v) for v in _lldp(self.switch, numbers))
        for found in instances(profile, numbers, self._counted):
            if not found.counter:
                fixed[found.oid] = Varbind(found.oid, found.tag, found.constant)
        for entry in moving:
            fixed.pop(entry.oid, None)
        return Table(list(fixed.values()), moving)


def if_numbers(switch: Switch, profile: Profile) -> list[int]:
    """IfIndex of each port, as such devices number them."""
    assert profile.likeness is not None
    first, step = profile.likeness.first, profile.likeness.step
    return [first + i * step for i in range(len(switch.ports))]


def _moving(
    switch: Switch, profile: Profile, counted: Mapping[str, Collection[int]]
) -> Iterator[tuple[Instance, Slot]]:
    for found in instances(profile, if_numbers(switch, profile), counted):
        if found.counter:
            yield (
                found,
                Slot(
                    found.counter,
                    found.queue,
                    found.port,
                    found.divisor,
                    32 if found.counter == SAMPLED else found.bits,
                    found.wanted,
                ),
            )


def _identity(switch: Switch, profile: Profile, numbers: Sequence[int]) -> Iterator[Varbind]:
    likeness = profile.likeness
    assert likeness is not None
    system = oid("1.3.6.1.2.1.1")
    yield Varbind((*system, 1, 0), ber.OCTETS, likeness.descr.encode())
    yield Varbind((*system, 2, 0), ber.OID, oid(likeness.object_id))
    yield Varbind(SYS_UPTIME, ber.TIMETICKS, 0)
    yield Varbind((*system, 5, 0), ber.OCTETS, switch.name.encode())
    yield Varbind(oid("1.3.6.1.2.1.2.1.0"), ber.INTEGER, len(numbers))
    yield Varbind(oid("1.3.6.1.2.1.31.1.5.0"), ber.TIMETICKS, 0)
    for number, port, speed in zip(numbers, switch.ports, switch.speeds, strict=True):
        name, address = port.encode(), mac(f"{switch.name}/{port}")
        yield from (
            Varbind((*_IF, 2, number), ber.OCTETS, name),
            Varbind((*_IF, 3, number), ber.INTEGER, _ETHERNET),
            Varbind((*_IF, 5, number), ber.GAUGE32, min(int(speed), _4G)),
            Varbind((*_IF, 6, number), ber.OCTETS, address),
            Varbind((*_IF, 7, number), ber.INTEGER, _UP),
            Varbind((*_IF, 8, number), ber.INTEGER, _UP),
            Varbind((*_IFX, 1, number), ber.OCTETS, name),
            Varbind((*_IFX, 15, number), ber.GAUGE32, int(speed / 1e6)),
            Varbind((*_IFX, 18, number), ber.OCTETS, b""),
        )


def _lldp(switch: Switch, numbers: Sequence[int]) -> Iterator[Varbind]:
    yield Varbind(_LLDP_CHASSIS_KIND, ber.INTEGER, _CHASSIS_BY_MAC)
    yield Varbind(_LLDP_CHASSIS, ber.OCTETS, mac(switch.name))
    for number, port, far in zip(numbers, switch.ports, switch.neighbours, strict=True):
        yield Varbind((*_LLDP_LOCAL, 2, number), ber.INTEGER, _BY_NAME)
        yield Varbind((*_LLDP_LOCAL, 3, number), ber.OCTETS, port.encode())
        yield Varbind((*_LLDP_LOCAL, 4, number), ber.OCTETS, port.encode())
        if far is not None:
            yield from _remote(far, number)


def _remote(far: Neighbour, number: int) -> Iterator[Varbind]:
    """Hosts name their port by its address, as NICs do; switches by its name."""
    port_id = mac(f"{far.device}/{far.port}") if far.is_host else far.port.encode()
    columns: dict[int, tuple[int, int | bytes]] = {
        4: (ber.INTEGER, _CHASSIS_BY_MAC),
        5: (ber.OCTETS, mac(far.device)),
        6: (ber.INTEGER, _BY_MAC if far.is_host else _BY_NAME),
        7: (ber.OCTETS, port_id),
        8: (ber.OCTETS, far.port.encode()),
        9: (ber.OCTETS, far.device.encode()),
        12: (ber.OCTETS, _HOST_CAPS if far.is_host else _SWITCH_CAPS),
    }
    for column, (tag, value) in columns.items():
        suffix: Oid = (column, 0, number, 1)
        yield Varbind((*_LLDP_REMOTE, *suffix), tag, value)
