"""One subscription of a simulated gNMI device: which leaves, when, and in which encoding."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from fabricmon.formats.gnmi.gnmi_notification import elements, write_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from fabricmon.formats.gnmi.gnmi_path import Element

_SLACK = 0.9
"""Share of a sample interval after which a subscription is due: polls are not exact."""


@dataclass(slots=True)
class Leaf:
    """One value of a device."""

    path: str
    elements: Sequence[Element]
    port: str
    value: int | float | str
    time_ns: int
    changed: bool = False


class Stream:
    """The sending side of one Subscribe call."""

    def __init__(self, device: str, wanted: Any, gnmi: Any) -> None:
        """`wanted` is the client's SubscriptionList."""
        self._device, self._gnmi = device, gnmi
        self._encoding = wanted.encoding
        prefix = elements(wanted.prefix)
        self._wanted = [(prefix + elements(s.path), s) for s in wanted.subscription]
        self._sent_ns = [0] * len(self._wanted)
        self._matches: dict[str, int | None] = {}
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self.synced = False
        """Whether everything was sent once."""

    def send(self, leaves: Mapping[str, Leaf], *, everything: bool = False) -> None:
        """Queue what is due: samples whose interval has passed, and states that changed."""
        now = max((leaf.time_ns for leaf in leaves.values()), default=0)
        due = [everything or self._due(i, now) for i in range(len(self._wanted))]
        by_port: dict[str, list[Leaf]] = {}
        on_change = self._gnmi.SubscriptionMode.ON_CHANGE
        for leaf in leaves.values():
            which = self._match(leaf)
            if which is None:
                continue
            changes = self._wanted[which][1].mode == on_change
            if everything or (leaf.changed if changes else due[which]):
                by_port.setdefault(leaf.port, []).append(leaf)
                leaf.changed = False
        for i, is_due in enumerate(due):
            if is_due:
                self._sent_ns[i] = now
        for port_leaves in by_port.values():
            self._queue.put_nowait(self._notification(port_leaves))

    def push(self, leaves: Sequence[Leaf]) -> None:
        """Queue these at once, due or not."""
        own = [leaf for leaf in leaves if self._match(leaf) is not None]
        if own:
            self._queue.put_nowait(self._notification(own))

    def delete(self, leaves: Iterable[Leaf]) -> None:
        """Queue a notification that these are gone."""
        answer = self._gnmi.SubscribeResponse()
        for leaf in leaves:
            if self._match(leaf) is not None:
                write_path(leaf.elements, answer.update.delete.add())
        answer.update.prefix.target = self._device
        self._queue.put_nowait(answer)

    def sync(self) -> None:
        """Queue the end of a complete answer."""
        self.synced = True
        self._queue.put_nowait(self._gnmi.SubscribeResponse(sync_response=True))

    def close(self) -> None:
        """Queue the end of the stream."""
        self._queue.put_nowait(None)

    async def answers(self) -> AsyncIterator[Any]:
        """What was queued, as it comes."""
        while (answer := await self._queue.get()) is not None:
            yield answer

    def pending(self) -> list[Any]:
        """What is queued now."""
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]

    def _due(self, which: int, now_ns: int) -> bool:
        interval = self._wanted[which][1].sample_interval
        return now_ns - self._sent_ns[which] >= interval * _SLACK and now_ns > self._sent_ns[which]

    def _match(self, leaf: Leaf) -> int | None:
        """The subscription a leaf falls under."""
        if leaf.path not in self._matches:
            self._matches[leaf.path] = next(
                (i for i, (path, _) in enumerate(self._wanted) if _under(leaf.elements, path)), None
            )
        return self._matches[leaf.path]

    def _notification(self, leaves: Sequence[Leaf]) -> Any:
        answer = self._gnmi.SubscribeResponse()
        note = answer.update
        note.timestamp = max(leaf.time_ns for leaf in leaves)
        note.prefix.target = self._device
        for leaf in leaves:
            update = note.update.add()
            write_path(leaf.elements, update.path)
            self._encode(update.val, leaf.value)
        return answer

    def _encode(self, typed: Any, value: float | str) -> None:
        encoding = self._gnmi.Encoding
        if self._encoding == encoding.JSON_IETF:  # RFC 7951: 64-bit integers are strings
            typed.json_ietf_val = orjson.dumps(str(value) if isinstance(value, int) else value)
        elif self._encoding == encoding.JSON:
            typed.json_val = orjson.dumps(value)
        elif isinstance(value, int):
            typed.uint_val = value
        elif isinstance(value, float):
            typed.double_val = value
        else:
            typed.string_val = value


def _under(leaf: Sequence[Element], wanted: Sequence[Element]) -> bool:
    """Whether a leaf lies under a path, whose keys may be left out or `*`."""
    if len(wanted) > len(leaf):
        return False
    for have, want in zip(leaf, wanted, strict=False):
        if want.name not in (have.name, "*"):
            return False
        if any(value not in ("*", have.keys.get(key)) for key, value in want.keys.items()):
            return False
    return True
