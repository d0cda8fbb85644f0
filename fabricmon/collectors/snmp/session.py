"""What every way of speaking SNMP offers, and the walk that is built on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fabricmon.errors import PollError, Reason

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fabricmon.collectors.snmp.plan import Plan
    from fabricmon.formats.snmp.ber import Oid
    from fabricmon.formats.snmp.snmp import Varbind

MAX_WALK = 400_000
"""Varbinds of one survey; an agent that invents more is cut off."""


class Session(Protocol):
    """A conversation with one agent. Methods raise `PollError` naming the target."""

    async def get(self, oids: Sequence[Oid]) -> Sequence[Varbind]:
        """The values of some instances, in order."""

    async def bulk(self, after: Oid) -> Sequence[Varbind]:
        """Some varbinds that follow `after`; as many as this agent manages in one reply."""

    async def read(
        self, plan: Plan, values: NDArray[np.uint64], state: NDArray[np.uint8]
    ) -> Counter[Reason]:
        """Fill the flat matrices [R·N + more] from all of `plan`; the count of what was lost."""

    def close(self) -> None:
        """Forget what is under way."""


async def walk(session: Session, root: Oid, into: dict[Oid, Varbind]) -> Reason | None:
    """Every instance below `root`; the reason if the agent broke off or lied in between.

    Raises `PollError` only where not even the first request was answered.
    """
    at, size = root, len(root)
    while len(into) < MAX_WALK:
        try:
            varbinds = await session.bulk(at)
        except PollError as error:
            if at == root:
                raise
            return error.reason
        if not varbinds:
            return Reason.TRUNCATED
        for varbind in varbinds:
            if not varbind.exists or varbind.oid[:size] != root:
                return None
            if varbind.oid <= at:
                return Reason.MALFORMED
            at = varbind.oid
            into[at] = varbind
    return Reason.LIMIT
