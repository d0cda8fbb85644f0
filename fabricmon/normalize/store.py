"""The memory of the normalizer: one row (slot) per counter and queue, one column per port.

Slots read together share sample times; such a set is a *group*. A group splits when a reading
brings only part of it, so times stay exact without a time per value.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.model.counters import BY_ID, CATALOGUE, NO_QUEUE, Counter, Scope
from fabricmon.model.ports import Saved
from fabricmon.model.readings import Column, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

_TRAFFIC = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")
NO_TIME = np.iinfo(np.int64).min
STEPPED = 255
"""As doubt: the machine's clock stepped. For one reading no stamp is believed, and none blamed."""
_PER_SLOT: dict[str, tuple[type, float]] = {
    "raw": (np.uint64, 0),  # as last read
    "total": (np.uint64, 0),  # unwrapped, in catalogue units
    "source": (np.uint8, 0),  # which of the slot's columns feeds it; 0 none yet
    "incoming": (np.uint64, 0),  # read since, not settled yet
    "state": (np.uint8, State.MISSING),  # of this tick, as far as it is known
    "moved": (np.uint64, 0),  # settled before the tick, in catalogue units
    "worst": (np.uint8, State.OK),  # the state of what was settled before the tick
    "rate": (np.float32, np.nan),  # per second, as published last
    "published": (np.uint8, State.MISSING),  # the states published with it
}
_PER_GROUP: dict[str, tuple[type, float]] = {
    "last": (np.int64, NO_TIME),  # sample time of the latest reading
    "base": (np.int64, NO_TIME),  # sample time the next rate starts from
    "settled": (np.int64, NO_TIME),  # sample time of the reading settled last
    "touched": (np.bool_, False),  # read since the last tick
    "heard": (np.int64, NO_TIME),  # tick time at which a reading last came
    "behind": (np.int64, NO_TIME),  # tick since which nothing came but readings not newer
    "doubt": (np.uint8, 0),  # readings for which the device's clock is still distrusted
    "moved_at": (np.int64, NO_TIME),  # sample time at which a value last moved
    "moved_base": (np.int64, NO_TIME),  # the same, as of the last tick
    "gap": (np.float32, 0),  # mean seconds between moves
    "gaps": (np.uint8, 0),  # moves seen at a steady beat
    "still": (np.uint8, 0),  # readings since the last move that moved nothing
    "still_low": (np.uint8, 0),
    "still_high": (np.uint8, 0),
    "unsure": (np.bool_, False),  # the last move was read late: when it was is not known
    "poll": (np.float32, 0),  # mean seconds between readings
    "quiet": (np.bool_, False),  # at the last tick nothing moved, though something was due
}


class Store:
    """Arrays that grow in both directions. `version` changes whenever slots or groups do.

    The arrays are attributes, renewed by whatever makes them grow: do not keep them. They are
    [S,N], S slots (port counters, then queue counters times queues); times are [G,N], G groups.
    """

    raw: NDArray[np.uint64]
    total: NDArray[np.uint64]
    source: NDArray[np.uint8]
    incoming: NDArray[np.uint64]
    state: NDArray[np.uint8]
    moved: NDArray[np.uint64]
    worst: NDArray[np.uint8]
    rate: NDArray[np.float32]
    published: NDArray[np.uint8]
    last: NDArray[np.int64]
    base: NDArray[np.int64]
    settled: NDArray[np.int64]
    touched: NDArray[np.bool_]
    heard: NDArray[np.int64]
    behind: NDArray[np.int64]
    doubt: NDArray[np.uint8]
    moved_at: NDArray[np.int64]
    moved_base: NDArray[np.int64]
    gap: NDArray[np.float32]
    gaps: NDArray[np.uint8]
    still: NDArray[np.uint8]
    still_low: NDArray[np.uint8]
    still_high: NDArray[np.uint8]
    unsure: NDArray[np.bool_]
    poll: NDArray[np.float32]
    quiet: NDArray[np.bool_]

    def __init__(self) -> None:
        """Empty."""
        self.version = 0
        self.ports = 0
        self.counters: tuple[Counter, ...] = ()
        self.queue_counters: tuple[Counter, ...] = ()
        self.queues: tuple[int, ...] = ()
        self.columns: list[list[Column]] = []
        """The columns that ever fed a slot; `source` counts them from 1."""
        self.group_of: list[int] = []
        self.groups: list[list[int]] = []
        """Slots of each group."""
        self._slot: dict[tuple[int, int], int] = {}
        self._data: dict[str, NDArray[Any]] = {
            name: np.full((0, 64), fill, dt)
            for name, (dt, fill) in {**_PER_SLOT, **_PER_GROUP}.items()
        }
        self.early: set[int] = set()
        """Slots of which something was settled before the tick: `moved` and `worst` hold it."""
        self._traffic = (-1, -1)
        for name, array in self._data.items():
            self._set(name, array)

    def save(self) -> Saved:
        """Everything, readings that wait for the next tick included."""
        saved = Saved({name: getattr(self, name) for name in self._data})
        layout: dict[str, Any] = {
            "counters": [counter.id for counter in self.counters],
            "queue_counters": [counter.id for counter in self.queue_counters],
            "queues": self.queues,
            "columns": [[_written(column) for column in known] for known in self.columns],
            "groups": self.groups,
            "early": sorted(self.early),
        }
        saved.write("layout", layout)
        return saved

    @classmethod
    def restored(cls, saved: Saved) -> Store:
        """A store of what was saved. Raises `KeyError` or `ValueError` where it does not fit."""
        store, layout = cls(), saved.read("layout")
        store.counters = tuple(BY_ID[name] for name in layout["counters"])
        store.queue_counters = tuple(BY_ID[name] for name in layout["queue_counters"])
        store.queues, store.groups = tuple(layout["queues"]), layout["groups"]
        store.columns = [[_column(*column) for column in known] for known in layout["columns"]]
        store.early = set(layout["early"])
        keys = [(counter.code, NO_QUEUE) for counter in store.counters]
        keys += [(counter.code, q) for counter in store.queue_counters for q in store.queues]
        store._slot = {key: slot for slot, key in enumerate(keys)}
        group_of = {slot: group for group, slots in enumerate(store.groups) for slot in slots}
        store.group_of = [group_of.get(slot, -1) for slot in range(len(keys))]
        rows = dict.fromkeys(_PER_SLOT, len(keys)) | dict.fromkeys(_PER_GROUP, len(store.groups))
        for name, (dtype, fill) in {**_PER_SLOT, **_PER_GROUP}.items():
            store._data[name] = np.full((rows[name], 64), fill, dtype)
        store.grow(saved.ports["raw"].shape[1])
        for name in rows:
            if len(saved.ports[name]) != rows[name]:
                raise ValueError(f"{name} has {len(saved.ports[name])} rows, not {rows[name]}")
            getattr(store, name)[:] = saved.ports[name]
        store.version = 1
        return store

    def shift(self, step_ns: int) -> None:
        """The clock stepped: move every time on, and trust no stamp of the next readings.

        Times of ours are exact then; those of devices, which did not step, are told apart by it.
        """
        for name in ("last", "base", "settled", "heard", "behind", "moved_at", "moved_base"):
            times = getattr(self, name)
            times[times != NO_TIME] += step_ns
        self.doubt[:] = STEPPED

    def distrust_narrow(self) -> None:
        """Begin anew where a counter may have wrapped unseen: after a time without readings."""
        for slot, known in enumerate(self.columns):
            for number, column in enumerate(known, 1):
                if column.bits < 64 and not column.saturates:
                    self.source[slot][self.source[slot] == number] = 0

    def _set(self, name: str, array: NDArray[Any]) -> None:
        self._data[name] = array
        setattr(self, name, array[:, : self.ports])

    def begin(self) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """Start a tick with no rates; hands over the rates and states [S,N] published last."""
        before = self.rate, self.published
        self._set("rate", np.full_like(self._data["rate"], np.nan))
        return before

    def publish(self) -> NDArray[np.uint8]:
        """End a tick: uint8[S,N] its states, which are not written any more."""
        self._set("published", self._data["state"])
        self._set("state", np.full_like(self._data["state"], State.MISSING))
        return self.published

    def counter_of(self, slot: int) -> Counter:
        """What a slot counts."""
        if slot < len(self.counters):
            return self.counters[slot]
        return self.queue_counters[(slot - len(self.counters)) // len(self.queues)]

    def queue_of(self, slot: int) -> int | None:
        """The queue a slot counts for; None where it is counted per port."""
        at = slot - len(self.counters)
        return None if at < 0 else self.queues[at % len(self.queues)]

    @property
    def traffic_group(self) -> int:
        """The group of the byte (or packet) counters, -1 where there is none.

        Ports always count something there, if only hellos: it shows when a device renews.
        """
        if self._traffic[0] != self.version:
            slots = [self._slot.get((BY_ID[name].code, NO_QUEUE), -1) for name in _TRAFFIC]
            groups = [self.group_of[slot] for slot in slots if slot >= 0]
            self._traffic = (self.version, groups[0] if groups else -1)
        return self._traffic[1]

    def grow(self, ports: int) -> None:
        """Have room for so many ports."""
        if ports <= self.ports:
            return
        room = self._data["raw"].shape[1]
        while room < ports:
            room *= 2
        self.ports = ports
        for name, (dtype, fill) in {**_PER_SLOT, **_PER_GROUP}.items():
            old = new = self._data[name]
            if old.shape[1] < room:
                new = np.full((len(old), room), fill, dtype)
                new[:, : old.shape[1]] = old
            self._set(name, new)

    def slots(self, columns: Sequence[Column]) -> list[int]:
        """The slot of each counter column, made where new. Slots that are new form a group."""
        wanted = [_key(column) for column in columns]
        if any(key not in self._slot for key in wanted):
            self._add(wanted)
        found = [self._slot[key] for key in wanted]
        for scope in (True, False):  # a device may renew port and queue counters apart
            fresh = [s for s in found if self.group_of[s] < 0 and self._is_port(s) is scope]
            if fresh:
                self._new_group(fresh)
        self._split_by(found)
        return found

    def have_queues(self, queues: Iterable[int]) -> None:
        """Make room for queues of which only gauges are read."""
        if not set(queues) <= set(self.queues):
            self.queues = tuple(sorted({*self.queues, *queues}))
            self._add([])

    def _is_port(self, slot: int) -> bool:
        return slot < len(self.counters)

    def number(self, slot: int, column: Column) -> int:
        """The number of `column` among those that feed the slot, from 1."""
        known = self.columns[slot]
        if column not in known:
            if len(known) >= 255:
                del known[1:]  # a source that renames itself at each poll must not leak
            known.append(column)
        return known.index(column) + 1

    def split(self, slots: Iterable[int]) -> None:
        """Give each of these slots sample times of its own."""
        for slot in slots:
            if len(self.groups[self.group_of[slot]]) > 1:
                self._new_group([slot])

    def _split_by(self, found: list[int]) -> None:
        """Part every group of which `found` holds only some slots."""
        have = set(found)
        for group in {self.group_of[slot] for slot in found}:
            inside = [slot for slot in self.groups[group] if slot in have]
            if len(inside) < len(self.groups[group]):
                self._new_group(inside)

    def _new_group(self, slots: list[int]) -> None:
        """Move slots into a group of their own, which inherits the times they had."""
        parent = self.group_of[slots[0]]
        for name, (dtype, fill) in _PER_GROUP.items():
            old = self._data[name]
            row = old[parent] if parent >= 0 else np.full(old.shape[1], fill, dtype)
            self._set(name, np.concatenate([old, row[None]]))
        for slot in slots:
            if self.group_of[slot] >= 0:
                self.groups[self.group_of[slot]].remove(slot)
            self.group_of[slot] = len(self.groups)
        self.groups.append(list(slots))
        self.version += 1

    def _add(self, keys: list[tuple[int, int]]) -> None:
        """Lay the slots out anew: catalogue order, every queue counter over every queue."""
        seen = {*self._slot, *keys}
        ports = sorted({code for code, queue in seen if CATALOGUE[code].scope is Scope.PORT})
        queued = sorted({code for code, queue in seen if CATALOGUE[code].scope is Scope.QUEUE})
        used = {queue for code, queue in seen if CATALOGUE[code].scope is Scope.QUEUE}
        queues = sorted({*used, *self.queues})
        layout = [(code, NO_QUEUE) for code in ports]
        layout += [(code, queue) for code in queued for queue in queues]
        origin = np.array([self._slot.get(key, -1) for key in layout], np.intp)
        for name, (dtype, fill) in _PER_SLOT.items():
            old = self._data[name]
            new: NDArray[Any] = np.full((len(layout), old.shape[1]), fill, dtype)
            new[origin >= 0] = old[origin[origin >= 0]]
            self._set(name, new)
        self.columns = [self.columns[o] if o >= 0 else [] for o in origin]
        self.group_of = [self.group_of[o] if o >= 0 else -1 for o in origin]
        place = {int(o): s for s, o in enumerate(origin) if o >= 0}
        self.groups = [[place[slot] for slot in group] for group in self.groups]
        self.early = {place[slot] for slot in self.early}
        self._slot = {key: slot for slot, key in enumerate(layout)}
        self.counters = tuple(CATALOGUE[code] for code in ports)
        self.queue_counters = tuple(CATALOGUE[code] for code in queued)
        self.queues = tuple(queues)
        self.version += 1


def _written(column: Column) -> list[Any]:
    """A column as JSON takes it."""
    return [column.counter.id, *(getattr(column, field.name) for field in fields(column)[1:])]


def _column(counter: str, *rest: Any) -> Column:
    return Column(BY_ID[counter], *rest)


def _key(column: Column) -> tuple[int, int]:
    port = column.counter.scope is Scope.PORT
    return column.counter.code, NO_QUEUE if port else column.queue
