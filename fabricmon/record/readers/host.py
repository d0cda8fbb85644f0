"""What hosts leave behind: `ethtool -S` texts, exporters' pages, copied sysfs trees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fabricmon.formats import promtext
from fabricmon.formats.base import ChunkBuilder, PortReading
from fabricmon.formats.system import ethtool, sysfs
from fabricmon.mappings.host import HostFields
from fabricmon.record.files import time_in_name, untimed
from fabricmon.record.readers.base import OLDEST_FIRST, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fabricmon.model.topology import Topology
    from fabricmon.record.files import File
    from fabricmon.record.readers.base import Pieces, Scope

_TREE = re.compile(r"^(?P<root>.*?)/?(?:sys/)?(?:class/)?(?:infiniband/)?[\w.-]+/ports/\d+/")


class HostText:
    """`ethtool -S` and Prometheus pages, one reading a file."""

    name = "host counters"

    def sniff(self, file: File) -> bool:
        """By the heading of ethtool, or the first line of a page."""
        return ethtool.sniff(file.head) or promtext.sniff(file.head)

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """All in order of their files' times."""
        return [], [self._pieces(sorted(files, key=OLDEST_FIRST), scope)]

    @staticmethod
    def _pieces(files: Sequence[File], scope: Scope) -> Pieces:
        fields, builder = HostFields.load(), ChunkBuilder(scope.layout)
        for file in files:
            for device, port, said in _ports(file, scope):
                builder.add(PortReading(device, port, fields.values(said)), file.written_ns)
            yield builder.take()


def _ports(file: File, scope: Scope) -> Iterator[tuple[str, str, dict[str, object]]]:
    lines = lines_of(file)
    if ethtool.sniff(file.head):
        for interface, said in ethtool.interfaces(lines, scope.bad, file.name):
            yield *ethtool.owner(file.name, interface), said
        return
    for host, port, said in promtext.ports(lines, scope.bad, file.name):
        yield host or untimed(file), port, said


class SysfsTree:
    """Copies of `/sys/class/infiniband`, one or many, as folders or as archives."""

    name = "sysfs tree"

    def sniff(self, file: File) -> bool:
        """By its path: a file of such a tree holds one number, or has nothing for us."""
        path = file.path.as_posix()
        return sysfs.sniff(path) or "/class/infiniband/" in path

    def read(self, files: Sequence[File], scope: Scope) -> tuple[list[Topology], list[Pieces]]:
        """Each tree is one reading, named and timed by the folder (or archive) it is in."""
        trees: dict[str, list[File]] = {}
        for file in files:
            match = _TREE.match(file.path.as_posix())
            if match is not None:
                trees.setdefault(match["root"], []).append(file)
        return [], [self._pieces(trees, scope)]

    @staticmethod
    def _pieces(trees: dict[str, list[File]], scope: Scope) -> Pieces:
        fields, builder = HostFields.load(), ChunkBuilder(scope.layout)
        timed = sorted((_when(root, files), root) for root, files in trees.items())
        for time_ns, root in timed:
            texts = [
                (file.path.as_posix(), file.read().decode("utf-8", "replace"))
                for file in trees[root]
            ]
            for port in sysfs.ports(texts):
                said: dict[str, object] = dict(port.fields)
                builder.add(PortReading(_host(root), port.name, fields.values(said)), time_ns)
            yield builder.take()


def _when(root: str, files: Sequence[File]) -> int:
    """As the nearest folder says in its name, else when the last file was written."""
    for part in reversed(root.split("/")):
        named = time_in_name(part)
        if named is not None:
            return named
    return max(file.written_ns for file in files)


def _host(root: str) -> str:
    """The nearest folder that is not named after a time; an archive without its suffix."""
    for part in reversed(root.split("/")):
        if part and time_in_name(part) is None:
            return re.sub(r"\.(tar|tgz|tar\.\w+)$", "", part)
    return "host"
