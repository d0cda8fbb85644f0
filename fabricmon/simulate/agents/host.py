"""Simulated hosts as files: a `/sys/class/infiniband` tree and `ethtool -S` texts for each.

trees = HostTrees(folder, topology)
trees.update(batches)            # folder/HOST/class/infiniband/…, folder/HOST/ethtool/eth0.txt
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.mappings.host import HostFields
from fabricmon.model.counters import NO_QUEUE
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fabricmon.mappings.host import FieldRow
    from fabricmon.model.readings import Column, ReadingBatch
    from fabricmon.model.topology import Topology


class HostTrees:
    """Writes what every host of a fabric counts, over and over, into the same files."""

    def __init__(self, folder: Path, topology: Topology, mapping: str = "mlx5") -> None:
        """`mapping` names the driver whose words are used beside the common ones."""
        self._folder = folder
        self._hosts = {node.name for node in topology.nodes if node.kind == "host"}
        self._sysfs: dict[str, FieldRow] = {}
        self._ethtool: dict[str, FieldRow] = {}
        for name in ("infiniband", mapping):
            for row in HostFields.load(name).rows:
                words = self._ethtool if row.field.startswith("ethtool/") else self._sysfs
                known = words.get(row.counter)
                if known is None or row.rank < known.rank:
                    words[row.counter] = row
        self._hcas: dict[tuple[str, str], str] = {}

    def folder(self, host: str) -> Path:
        """The address a collector reads this host under."""
        return self._folder / host

    def update(self, batches: Iterable[ReadingBatch]) -> None:
        """Write new readings; those of switches are left out."""
        for batch in batches:
            for n, (device, port) in enumerate(
                zip(batch.ports.device, batch.ports.port, strict=True)
            ):
                if device in self._hosts:
                    self._write(batch, n, device, port)

    def _write(self, batch: ReadingBatch, n: int, device: str, port: str) -> None:
        number = sum(1 for host, _ in self._hcas if host == device)
        hca = self._hcas.setdefault((device, port), f"mlx5_{number}")
        base = self.folder(device) / "class" / "infiniband" / hca
        net = base / "device" / "net" / port
        if not net.exists():
            net.mkdir(parents=True)
            (net / "dev_port").write_text("0\n")
        files = {"link_layer": "Ethernet", "state": "4: ACTIVE"}
        lines = ["NIC statistics:"]
        for k, column in enumerate(batch.columns):
            if batch.state[k, n] != State.OK:
                continue
            count = int(batch.values[k, n]) * column.scale
            for words in (self._sysfs, self._ethtool):
                row = words.get(column.counter.id)
                if row is None:
                    continue
                name, value = _name(row, column), count // row.scale % (1 << row.bits)
                if words is self._sysfs:
                    files[name] = str(value)
                else:
                    lines.append(f"     {name.removeprefix('ethtool/')}: {value}")
        for name, text in files.items():
            path = base / "ports" / "1" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, f"{text}\n")
        texts = self.folder(device) / "ethtool"
        texts.mkdir(exist_ok=True)
        _replace(texts / f"{port}.txt", "\n".join(lines) + "\n")


def _replace(path: Path, text: str) -> None:
    """Whoever reads meanwhile gets the old text or the new one, as from the kernel."""
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(text)
    fresh.replace(path)


def _name(row: FieldRow, column: Column) -> str:
    queue = "" if column.queue == NO_QUEUE else str(column.queue)
    return row.field.replace("{queue}", queue)
