"""Leases, as one worker sees them: who is there, who polls what, who leads. No I/O here.

Shares of the TTL: a holder renews after 0.2 and counts itself as fenced after 0.6 without an
answer; others take over after 0.8 in which they saw no change. Both by the own monotonic clock, so
that no clock of another machine decides anything. With a look every 0.1, a lease of a holder that
died is free again within one TTL.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Self

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BEAT, RENEW, FENCE, EXPIRE = 0.1, 0.2, 0.6, 0.8
BLINK = 0.4
"""Longer without a look, and what was not seen to change may have changed: ages begin anew."""
NOBODY = ""


class Entry(NamedTuple):
    """What a lease's key holds: its revision, who holds it (`NOBODY`: released), since which."""

    revision: int
    holder: str
    token: int = 0
    """Revision at which the holder took it; 0 while that is this one."""

    @classmethod
    def read(cls, revision: int, value: bytes) -> Self:
        """What a key holds at this revision; what cannot be read counts as released."""
        try:
            fields = orjson.loads(value)
            return cls(revision, str(fields["holder"]), int(fields["token"]))
        except (ValueError, TypeError, KeyError):
            return cls(revision, NOBODY)

    def written(self) -> bytes:
        """As the value of its key."""
        return orjson.dumps({"holder": self.holder, "token": self.token})


@dataclass(slots=True)
class _Held:
    revision: int
    token: int
    answered: float
    """Monotonic time at which the last renewal that succeeded was asked for."""


class Leases:
    """The leases of a cluster, seen by the member `me`."""

    def __init__(self, me: str, ttl_s: float) -> None:
        """Nothing is seen or held yet."""
        self.me = me
        self._ttl_s = ttl_s
        self._seen: dict[str, tuple[Entry, float]] = {}
        """Key -> what it held when last looked at, and since when it was seen not to change."""
        self._looked = 0.0
        self._held: dict[str, _Held] = {}

    @property
    def held(self) -> frozenset[str]:
        """Keys that are mine, as far as I know: time alone does not take them away."""
        return frozenset(self._held)

    def observe(self, entries: Mapping[str, Entry], now: float) -> list[str]:
        """Take a look at all keys. Gives those that were mine and are somebody else's."""
        # After an outage everybody is late. Who looks first must not take the others for dead.
        before = self._seen if now - self._looked <= BLINK * self._ttl_s else {}
        self._seen, self._looked = {}, now
        for key, entry in entries.items():
            old = before.get(key)
            unchanged = old is not None and old[0].revision == entry.revision
            self._seen[key] = (entry, old[1] if old is not None and unchanged else now)
        return [key for key in sorted(self._held) if self._is_lost(key)]

    def _is_lost(self, key: str) -> bool:
        """Whether a later revision is another's; one of my own is a renewal whose answer was lost.

        A key that is not there at all was lost with the server's store.
        """
        held = self._held[key]
        entry = self._seen[key][0] if key in self._seen else Entry(held.revision + 1, NOBODY)
        if entry.revision <= held.revision:
            return False
        if entry.holder == self.me:
            held.revision = entry.revision
            return False
        del self._held[key]
        return True

    def holder(self, key: str, now: float) -> str:
        """Who holds `key`; `NOBODY` where it is free, released or expired."""
        if key not in self._seen:
            return NOBODY
        entry, since = self._seen[key]
        return NOBODY if now - since >= EXPIRE * self._ttl_s else entry.holder

    def revision(self, key: str) -> int:
        """The revision a change of `key` has to name; 0 where the key is new."""
        if key in self._held:
            return self._held[key].revision
        return self._seen[key][0].revision if key in self._seen else 0

    def members(self, prefix: str, now: float) -> list[str]:
        """Who holds a key that begins with `prefix`, sorted."""
        found = {self.holder(key, now) for key in self._seen if key.startswith(prefix)}
        return sorted(found - {NOBODY})

    def expired(self, prefix: str, now: float) -> list[str]:
        """Keys that begin with `prefix` and that nobody holds any more."""
        return [k for k in self._seen if k.startswith(prefix) and not self.holder(k, now)]

    def token(self, key: str, now: float) -> int | None:
        """The fencing token of a lease I may act on now; None where I may not."""
        held = self._held.get(key)
        if held is None or now - held.answered >= FENCE * self._ttl_s:
            return None
        return held.token

    def due(self, now: float) -> list[str]:
        """My leases that are to be renewed, oldest first."""
        old = [(h.answered, k) for k, h in self._held.items()]
        return [key for answered, key in sorted(old) if now - answered >= RENEW * self._ttl_s]

    def entry(self, key: str) -> Entry:
        """What a renewal of `key` writes (the revision is the server's to give)."""
        return Entry(0, self.me, self._held[key].token)

    def took(self, key: str, revision: int, asked: float) -> None:
        """The server let me have `key`; that was asked for at `asked`."""
        self._held[key] = _Held(revision, revision, asked)

    def renewed(self, key: str, revision: int, asked: float) -> None:
        """The server renewed it."""
        held = self._held[key]
        held.revision, held.answered = revision, asked

    def dropped(self, key: str) -> None:
        """It is not mine any more."""
        self._held.pop(key, None)


def name_of(member: str) -> str:
    """The worker's name: a member is `NAME-BOOT`."""
    return member.rpartition("-")[0]


def ranked(what: str, members: Iterable[str]) -> list[str]:
    """Members in the order in which they should do `what`: rendezvous hashing.

    When a member goes, only what it did moves; the rest stays where it is. A member's weight
    follows from its name, so that a restart brings its work back to it.
    """

    def weight(member: str) -> tuple[bytes, str]:
        return blake2b(f"{what}\0{name_of(member)}".encode(), digest_size=8).digest(), member

    return sorted(members, key=weight, reverse=True)
