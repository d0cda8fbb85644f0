"""A walk of an agent, and what its interface table calls its ports."""

from __future__ import annotations

import marshal
import re
from bisect import bisect_left
from collections import Counter as Tally
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.mappings.snmp import Oid, Profile, oid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

IF_TYPE = oid("1.3.6.1.2.1.2.2.1.3")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]+")


class Walk:
    """What an agent answered, by OID."""

    def __init__(self, values: Mapping[Oid, int | bytes]) -> None:
        """Sort once; columns are then found by bisection."""
        self._values = values
        self._oids = sorted(values)

    def __len__(self) -> int:
        return len(self._oids)

    def column(self, column: Oid) -> Iterator[tuple[Oid, int | bytes]]:
        """Index and value of every instance of a column, in order."""
        size = len(column)
        for i in range(bisect_left(self._oids, column), len(self._oids)):
            found = self._oids[i]
            if found[:size] != column:
                return
            if len(found) > size:
                yield found[size:], self._values[found]

    def positions(self, oids: Sequence[Oid]) -> NDArray[np.int64]:
        """int64[len(oids)]: where each of these ascending instances stands in the walk."""
        found = np.empty(len(oids), np.int64)
        at = 0
        for i, instance in enumerate(oids):
            at = bisect_left(self._oids, instance, at)
            found[i] = at
        return found

    def fingerprint(self, columns: Iterable[Oid]) -> bytes:
        """Of which instances there are, and of what those of `columns` say."""
        said = [list(self.column(column)) for column in columns]
        return blake2b(marshal.dumps((self._oids, said))).digest()

    def number(self, instance: Oid) -> int | None:
        """The value of one instance, if it is a number."""
        value = self._values.get(instance)
        return value if isinstance(value, int) else None

    def octets(self, instance: Oid) -> bytes:
        """The value of one instance, if it is a string; empty otherwise."""
        value = self._values.get(instance)
        return value if isinstance(value, bytes) else b""

    def text(self, instance: Oid) -> str:
        """The value of one instance as text; empty where there is none."""
        return printable(self.octets(instance))


def printable(raw: bytes) -> str:
    """Octets as text without control characters (agents pad with NUL)."""
    return _UNPRINTABLE.sub(" ", raw.decode("utf-8", "replace").rstrip("\0")).strip()


def port_names(profile: Profile, walk: Walk) -> dict[int, str]:
    """Name of every port by its number in the interface table; equal names get `#number`."""
    names: dict[int, str] = {}
    for column in map(oid, profile.ports.name):
        for index, value in walk.column(column):
            if len(index) == 1 and isinstance(value, bytes) and not names.get(index[0]):
                names[index[0]] = printable(value)
    types = {index[0]: value for index, value in walk.column(IF_TYPE)}
    exclude = re.compile(profile.ports.exclude or r"(?!)")
    kept = {
        index: name
        for index, name in names.items()
        if name
        and types.get(index, profile.ports.types[0]) in profile.ports.types
        and not exclude.search(name)
    }
    tally = Tally(kept.values())
    return {
        index: name if tally[name] == 1 else f"{name}#{index}"
        for index, name in sorted(kept.items())
    }
