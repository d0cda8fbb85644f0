"""Guesses that name a place, another one, or none: which of them stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest
from support.fabrics import Run, leaf_spine

from fabricmon.diagnose import rules
from fabricmon.model.incident import Finding, IncidentKind, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fabricmon.diagnose.view import FabricView


class Guess:
    """A rule that guesses at each tick, with the next of `names` as cause."""

    kind: ClassVar[str] = IncidentKind.COLLECTIVE_STALL
    opens_after: ClassVar[int] = 3

    def __init__(self, names: Iterator[int | None]) -> None:
        """Rows of the causes to come; None for none."""
        self._names = names

    def findings(self, view: FabricView) -> Sequence[Finding]:
        """The guess of this tick."""
        row = next(self._names)
        causes = () if row is None else (view.cause(row, 0.5),)
        severity, verdict = Severity.MODERATE, Verdict.NOT_FABRIC
        kind = IncidentKind.COLLECTIVE_STALL
        return [Finding(kind, verdict, severity, 0.5, causes, rows=(0, 1, 2, 3))]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([None, None, None, None], True),
        ([None, 2, None, None], True),
        ([2, 2, 2, 2], True),
        ([0, 2, 0, 2], False),
        ([None, 2, 0, None], False),
    ],
)
def test_a_guess_wanders_where_it_names_several_and_not_where_it_names_none(
    monkeypatch: pytest.MonkeyPatch, names: list[int | None], told: bool
) -> None:
    """A claim without a cause says nothing of where."""
    run = Run(leaf_spine())
    monkeypatch.setattr(rules, "make", lambda _: [Guess(iter(names))])
    assert bool(run.ticks(len(names)).open) is told
