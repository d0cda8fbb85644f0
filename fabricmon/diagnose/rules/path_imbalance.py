"""One of several parallel ways, rails or planes is full while its siblings idle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fabricmon.diagnose.fabric.rails import Uneven
    from fabricmon.diagnose.view import FabricView


class PathImbalance:
    """A full way beside idle ones."""

    kind: ClassVar[str] = IncidentKind.PATH_IMBALANCE
    signature: ClassVar[str] = (
        "One uplink of a device runs full and holds others back, or builds a queue, while its "
        "parallel ways have room. rail, plane: a host fills one of its network cards while the "
        "others, which it used to use alike, empty."
    )
    discriminator: ClassVar[str] = (
        "Its siblings idle; in over-subscription they are full as well. A sibling that is down or "
        "slow is a degraded link, not an imbalance. Where half of a job's hosts prefer the same "
        "rail, the job sends so; planes are used evenly by design."
    )
    advice: ClassVar[str] = (
        "Look at the hash (ECMP polarisation, few large flows), at adaptive routing (off on one "
        "switch?), and at routes that leave out a sibling. rail: which adapters the host's "
        "collective library was given. plane: how the adapter spreads its packets, and what it "
        "found wrong with the planes that it left out."
    )
    limits: ClassVar[str] = (
        "Needs the topology. A job whose few flows always share a way shows this in its normal "
        "state too; only a clear rise over the port's own past is reported. Rails and planes are "
        "compared where the topology names them for ports of hosts."
    )

    opens_after: ClassVar[int] = 1  # what it stands on has lasted some polls already

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """One finding per group with a full way and idle ones."""
        odd = [group for group in view.full_groups if not group.even]
        first = [group for group in odd if group.up] or odd  # what fills a way down came up first
        ways = [self._finding(view, group.full, group.rows) for group in first]
        return [*ways, *(self._uneven(view, uneven) for uneven in view.uneven)]

    def _uneven(self, view: FabricView, uneven: Uneven) -> Finding:
        """A rail or plane that one host, or several, send by."""
        finding = self._finding(view, uneven.full, np.union1d(uneven.full, uneven.idle))
        alone = len(uneven.full) == 1
        verdict = Verdict.HOST if alone or uneven.reason == "rail" else Verdict.FABRIC
        return replace(finding, reason=uneven.reason, verdict=verdict)

    def _finding(self, view: FabricView, full: NDArray[np.intp], rows: NDArray[np.intp]) -> Finding:
        """The `full` ones of the parallel ways `rows`."""
        victims = self._victims(view, full)
        evidence = [view.evidence(int(row), "tx_use", "like its siblings") for row in full[:4]]
        idle = np.setdiff1d(rows, full)
        evidence += [view.evidence(int(row), "tx_use", "like its siblings") for row in idle[:6]]
        return Finding(
            IncidentKind.PATH_IMBALANCE,
            Verdict.FABRIC,
            Severity.MILD,
            0.85,
            tuple(view.cause(int(row), 0.85) for row in full[: view.config.max_causes]),
            view.victims(victims),
            (*evidence, *view.tree(victims)),
            self.advice,
            rows=tuple(dict.fromkeys(map(int, (*full, *victims, *rows)))),
        )

    @staticmethod
    def _victims(view: FabricView, full: NDArray[np.intp]) -> NDArray[np.intp]:
        """Whoever waits for the full ways, and for ways that they overfill further on.

        Not for a host further on: by whatever way, it is sent as much as before.
        """
        behind = view.behind_all(full)
        onward = [
            sink.victims
            for sink in view.sinks
            if not view.shape.faces_host[sink.row] and np.isin(full, sink.victims).any()
        ]
        return np.unique(np.concatenate([behind, *onward]))


RULE = PathImbalance
