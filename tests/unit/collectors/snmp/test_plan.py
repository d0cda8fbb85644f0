"""What a poll asks for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.collectors.snmp.plan import before, compile_plan
from fabricmon.formats.snmp import ber, snmp
from fabricmon.formats.snmp.snmp import PduType
from fabricmon.mappings.snmp_grid import Instances

COLUMN = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6)


def plan_of(adjacent: list[bool]) -> tuple[Instances, object]:
    """A plan of one column with these neighbours, and one scalar."""
    oids = [(*COLUMN, i + 1) for i in range(len(adjacent))]
    wanted = Instances(oids, np.arange(len(oids), dtype=np.int32), np.array(adjacent, np.bool_))
    return wanted, compile_plan(wanted, len(oids), [(1, 3, 6, 1, 2, 1, 1, 3, 0)])


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 20))
def test_every_instance_is_asked_for_once(adjacent: list[bool], repetitions: int) -> None:
    """However instances stand in the agent's tree, each is in exactly one request."""
    wanted, plan = plan_of(adjacent)
    asked = [i for a, b, _ in plan.pieces(repetitions, 8000) for i in range(a, b)]  # type: ignore[attr-defined]
    assert asked == list(range(len(plan)))  # type: ignore[arg-type]
    decoded = [ber.decode_oid(oid) for oid in plan.encoded(0, len(plan))]  # type: ignore[attr-defined, arg-type]
    places = dict(zip(decoded, plan.place.tolist(), strict=True))  # type: ignore[attr-defined]
    assert places.pop((1, 3, 6, 1, 2, 1, 1, 3, 0)) == len(wanted)
    assert [places[oid] for oid in wanted.oids] == list(range(len(wanted)))


def test_neighbours_come_by_getbulk_and_scattered_ones_by_get() -> None:
    """A run of neighbours is one short request; single instances are named."""
    _, plan = plan_of([False, *[True] * 20, False, False])
    kinds = {
        is_run: snmp.decode(plan.request(a, b, is_run=is_run))  # type: ignore[attr-defined]
        for a, b, is_run in plan.pieces(50, 8000)  # type: ignore[attr-defined]
    }
    assert kinds[True].type == PduType.GETBULK
    assert (kinds[True].error_index, kinds[True].varbinds[0].oid) == (21, (*COLUMN, 0))
    assert kinds[False].type == PduType.GET
    assert len(kinds[False].varbinds) == 3


def test_requests_are_cut_to_the_reply_s_size() -> None:
    """No reply is asked for that would not fit."""
    _, plan = plan_of([False, *[True] * 99])
    sizes = [b - a for a, b, _ in plan.pieces(50, 600)]  # type: ignore[attr-defined]
    assert max(sizes) == (600 - 80) // (14 + 12)


def test_devices_alike_share_one_plan() -> None:
    """Two switches of one model cost the memory of one."""
    assert plan_of([False, True, True])[1] is plan_of([False, True, True])[1]
    assert plan_of([False, True])[1] is not plan_of([False, False])[1]


@pytest.mark.parametrize("oid", [(*COLUMN, 5), (*COLUMN, 0), (*COLUMN, 7, 0)])
def test_before_is_smaller_and_nothing_lies_between(oid: tuple[int, ...]) -> None:
    """GETNEXT of it gives the instance itself."""
    assert before(oid) < oid
    assert (*before(oid), 0) >= before(oid)
