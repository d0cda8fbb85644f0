"""snmpsim's recordings: one file a device and poll, as a walk of a SONiC switch would give.

The walk names the ports and holds what that mapping has objects for. What it has none for (paused
time, say) and what runs no agent (hosts) is not there; cables, roles, jobs and intent stand in a
`topology.json` beside the walks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fabricmon.formats.interchange import TOPOLOGY, write_topology
from fabricmon.formats.snmp import ber, snmprec
from fabricmon.formats.snmp.snmp import Varbind
from fabricmon.mappings.snmp import SnmpMappings, oid
from fabricmon.mappings.snmp_backward import DOWN, SAMPLED, instances
from fabricmon.model.readings import ReadingBatch, State
from fabricmon.model.stream import Tick
from fabricmon.model.topology import Topology
from fabricmon.record.writers.base import stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from fabricmon.formats.interchange import Label
    from fabricmon.mappings.snmp_backward import Instance
    from fabricmon.model.stream import Item
    from fabricmon.selfmon import Reporter

_PROFILE = "sonic"
_DESCR = b"SONiC Software Version: simulated - HwSku: simulated - Distribution: Debian"
_SYS_DESCR, _SYS_UPTIME, _SYS_NAME = (oid(f"1.3.6.1.2.1.1.{n}.0") for n in (1, 3, 5))
_IF_DESCR, _IF_TYPE = oid("1.3.6.1.2.1.2.2.1.2"), oid("1.3.6.1.2.1.2.2.1.3")
_IF_NAME = oid("1.3.6.1.2.1.31.1.1.1.1")
_ETHERNET = 6


class _Device(NamedTuple):
    """One device of one batch: the rows of its ports, and what its walk shows of them."""

    rows: NDArray[np.intp]
    fixed: list[Varbind]
    moving: list[Instance]


class SnmprecWriter:
    """`TIME/DEVICE.snmprec`."""

    def __init__(self, folder: Path, fabric: str, report: Reporter) -> None:
        """Nothing is written yet."""
        del fabric, report
        self._folder = folder
        self._profile = SnmpMappings().profile(_PROFILE)
        self._topology = Topology()
        self._begun_ns = 0
        self._batches: list[ReadingBatch] = []
        self._known: dict[tuple[int, int], tuple[object, dict[str, _Device]]] = {}

    def write(self, item: Item) -> None:
        """Take one item."""
        match item:
            case Topology():
                self._topology = self._topology.merged(item)
            case ReadingBatch():
                self._batches.append(item)
            case Tick():
                self._poll(item.time_ns)

    def close(self, labels: Sequence[Label]) -> None:
        """Write what a walk cannot say."""
        del labels
        (self._folder / TOPOLOGY).write_bytes(write_topology(self._topology))

    def _poll(self, time_ns: int) -> None:
        batches, self._batches = self._batches, []
        self._begun_ns = self._begun_ns or time_ns
        uptime = (time_ns - self._begun_ns) // 10_000_000 + 6_000
        folder = self._folder / stamp(time_ns)
        folder.mkdir(exist_ok=True)
        for batch in batches:
            for device, parts in self._devices(batch).items():
                walk = [
                    *parts.fixed,
                    Varbind(_SYS_UPTIME, ber.TIMETICKS, uptime),
                    *_values(batch, parts, uptime),
                ]
                safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in device)
                with (folder / f"{safe}.snmprec").open("a", encoding="utf-8") as file:
                    file.writelines(snmprec.write_snmprec(walk))

    def _devices(self, batch: ReadingBatch) -> dict[str, _Device]:
        key = (id(batch.ports), id(batch.columns))
        known = self._known.get(key)
        if known is None:
            hosts = {node.name for node in self._topology.nodes if node.kind == "host"}
            made = {
                device: self._device(batch, device)
                for device in dict.fromkeys(batch.ports.device)
                if device not in hosts
            }
            known = self._known[key] = ((batch.ports, batch.columns), made)
        return known[1]

    def _device(self, batch: ReadingBatch, device: str) -> _Device:
        rows = np.array([n for n, name in enumerate(batch.ports.device) if name == device])
        numbers = list(range(1, len(rows) + 1))
        fixed = [
            Varbind(_SYS_DESCR, ber.OCTETS, _DESCR),
            Varbind(_SYS_NAME, ber.OCTETS, device.encode()),
        ]
        for number, row in zip(numbers, rows.tolist(), strict=True):
            name = batch.ports.port[row].encode()
            fixed += [
                Varbind((*_IF_DESCR, number), ber.OCTETS, name),
                Varbind((*_IF_NAME, number), ber.OCTETS, name),
                Varbind((*_IF_TYPE, number), ber.INTEGER, _ETHERNET),
            ]
        counted: dict[str, set[int]] = {}
        for column in (*batch.columns, *batch.gauge_columns):
            counted.setdefault(column.counter.id, set()).add(column.queue)
        return _Device(rows, fixed, list(instances(self._profile, numbers, counted)))


def _values(batch: ReadingBatch, device: _Device, uptime: int) -> Iterator[Varbind]:
    """The moving part of a walk; what was not read has no row."""
    counts = {(c.counter.id, c.queue): k for k, c in enumerate(batch.columns)}
    levels = {(c.counter.id, c.queue): g for g, c in enumerate(batch.gauge_columns)}
    for one in device.moving:
        key, row = (one.counter, one.queue), int(device.rows[one.port])
        if not one.counter:
            yield Varbind(one.oid, one.tag, one.constant)
        elif one.counter == SAMPLED:
            yield Varbind(one.oid, one.tag, uptime)
        elif key in counts and batch.state[counts[key], row] == State.OK:
            k = counts[key]
            count = int(batch.values[k, row]) * batch.columns[k].scale // round(one.divisor)
            yield Varbind(one.oid, one.tag, count & ((1 << one.bits) - 1))
        elif key in levels and np.isfinite(batch.gauges[levels[key], row]):
            level = float(batch.gauges[levels[key], row])
            if one.wanted is not None:
                yield Varbind(one.oid, one.tag, one.wanted if level else DOWN)
            else:
                yield Varbind(one.oid, one.tag, round(level / one.divisor))
