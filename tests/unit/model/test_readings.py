"""What is worked out once for objects that stay the same from poll to poll."""

from __future__ import annotations

from fabricmon.model.readings import ByIdentity, PortSet


def test_equal_objects_are_told_apart() -> None:
    """A source's own object is known again, an equal one of another source is not."""
    known: ByIdentity[PortSet, str] = ByIdentity()
    one, other = PortSet(("a",), ("1",)), PortSet(("a",), ("1",))
    assert known.get(one) is None
    assert not known.put(one, "first")
    assert known.get(one) == "first"
    assert known.get(other) is None


def test_what_is_remembered_is_bounded_by_its_size() -> None:
    """Objects that are new at each poll push out all others; one that is renewed counts once."""
    known: ByIdentity[list[int], int] = ByIdentity()
    lasting: list[int] = []
    for poll in range(100):
        assert not known.put(lasting, poll, size=4, most=10)
    fresh = [[] for _ in range(100)]
    forgot = [known.put(one, poll, size=3, most=10) for poll, one in enumerate(fresh)]
    assert forgot[:5] == [False, False, True, False, False]
    assert len(known) <= 3
    assert known.get(lasting) is None
    assert known.get(fresh[-1]) == 99
