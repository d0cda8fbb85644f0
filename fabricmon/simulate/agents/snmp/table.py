"""An agent's objects, encoded: every varbind in OID order in one string of octets.

A GETBULK answer is then a slice. New values are written by numpy, all of a device at once; only the
layout (which objects there are) is made of Python objects, once.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.formats.snmp import ber, snmp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.formats.snmp.ber import Oid
    from fabricmon.formats.snmp.snmp import Varbind

_NUMBER_OCTETS = 9
_END = bytes((snmp.Gone.END_OF_MIB_VIEW, 0))


@dataclass(frozen=True, slots=True)
class Moving:
    """An instance whose number comes from the outside: position `slot` of the values."""

    oid: Oid
    tag: int
    slot: int


class Table:
    """All instances of one agent, sorted; `refresh` encodes the current values."""

    def __init__(self, fixed: Sequence[Varbind], moving: Sequence[Moving]) -> None:
        """`fixed` keep their value; those of `moving` are zero until `refresh`."""
        entries: list[Varbind | Moving] = sorted((*fixed, *moving), key=lambda entry: entry.oid)
        self.oids: list[Oid] = [entry.oid for entry in entries]
        self.index = {ber.encode_oid(oid): i for i, oid in enumerate(self.oids)}
        self._entries = entries
        self._slots = np.array(
            [entry.slot if isinstance(entry, Moving) else -1 for entry in entries], np.int64
        )
        self._fixed = [
            b"" if isinstance(entry, Moving) else snmp.encode_varbind(entry) for entry in entries
        ]
        self._is_moving = self._slots >= 0
        self._template, self._static = _template(
            [entry for entry in entries if isinstance(entry, Moving)]
        )
        self.octets = b""
        self.bounds: list[int] = []
        """Instance i stands at `octets[bounds[i]:bounds[i+1]]`."""
        self.refresh(np.zeros(max(1, len(moving)), np.uint64))

    def __len__(self) -> int:
        return len(self.oids)

    def refresh(self, values: NDArray[np.uint64]) -> None:
        """Encode the moving instances with these values (by slot)."""
        numbers = values[self._slots[self._is_moving]]
        sizes = np.array([len(octets) for octets in self._fixed], np.int64)
        body, lengths = _encode(self._template, self._static, numbers)
        sizes[self._is_moving] = lengths
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        out = np.empty(int(bounds[-1]), np.uint8)
        mask = np.repeat(self._is_moving, sizes)
        out[mask] = body
        out[~mask] = np.frombuffer(b"".join(self._fixed), np.uint8)
        self.octets, self.bounds = out.tobytes(), bounds.tolist()

    def after(self, oid: Oid) -> int:
        """The first instance that follows `oid`."""
        return bisect_left(self.oids, (*oid, -1))

    def varbinds(self, first: int, stop: int) -> bytes:
        """Encoded instances first..stop."""
        return self.octets[self.bounds[first] : self.bounds[stop]]


def end_of_view(oid: bytes) -> bytes:
    """The varbind that says that nothing follows `oid` (encoded)."""
    return ber.tlv(ber.SEQUENCE, ber.tlv(ber.OID, oid) + _END)


def none_such(oid: bytes, tag: int = snmp.Gone.NO_SUCH_INSTANCE) -> bytes:
    """The varbind that says that there is no such instance."""
    return ber.tlv(ber.SEQUENCE, ber.tlv(ber.OID, oid) + bytes((tag, 0)))


def _template(moving: Sequence[Moving]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A row of octets per moving instance: 30 L 06 l oid tag v, room for nine octets of value.

    The OID is left-aligned, tag and value length stand right before the value, which is
    right-aligned; int64[n] are the lengths of the OIDs.
    """
    oids = [ber.encode_oid(entry.oid) for entry in moving]
    lengths = np.array([len(oid) for oid in oids], np.int64)
    widest = int(lengths.max(initial=0))
    rows = np.zeros((len(moving), 4 + widest + 2 + _NUMBER_OCTETS), np.uint8)
    rows[:, 0], rows[:, 2], rows[:, 3] = ber.SEQUENCE, ber.OID, lengths
    for row, oid in zip(rows, oids, strict=True):
        row[4 : 4 + len(oid)] = np.frombuffer(oid, np.uint8)
    rows[:, 4 + widest] = [entry.tag for entry in moving]
    return rows, lengths


def _encode(
    rows: NDArray[np.uint8], oid_lengths: NDArray[np.int64], numbers: NDArray[np.uint64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The octets of all rows with these numbers, and the length of each."""
    if not len(rows):
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    # A leading zero keeps the highest bit from being a sign: the size is that of 2·n + 1.
    sizes = np.ones(len(numbers), np.int64)
    for octets in range(1, _NUMBER_OCTETS):
        sizes += numbers >= np.uint64(1 << (8 * octets - 1))
    rows[:, -8:] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    rows[:, 1] = oid_lengths + 4 + sizes
    rows[:, -_NUMBER_OCTETS - 1] = sizes
    place = np.arange(rows.shape[1])
    widest = rows.shape[1] - 6 - _NUMBER_OCTETS
    keep = (place < 4 + oid_lengths[:, None]) | ((place >= 4 + widest) & (place < 6 + widest))
    keep |= place >= rows.shape[1] - sizes[:, None]
    return rows[keep], oid_lengths + 6 + sizes
