"""Votes become a confidence."""

from __future__ import annotations

from itertools import pairwise

from fabricmon.diagnose.tracking.belief import believed


def test_more_votes_are_never_believed_less_and_nothing_is_certain() -> None:
    """Monotone in both, zero for nothing, below one for everything."""
    steps = [i / 20 for i in range(21)]
    assert all(a <= b for a, b in pairwise(believed(s, 1.0) for s in steps))
    assert all(a <= b for a, b in pairwise(believed(0.9, s) for s in steps))
    assert believed(0.0, 1.0) == 0.0
    assert believed(1.0, 1.0) < 1.0


def test_a_divided_vote_is_believed_much_less_than_a_whole_one() -> None:
    """Half of the claims for another kind makes a sure rule doubtful."""
    assert believed(0.9, 0.5) < 0.8 * believed(0.9, 1.0)
