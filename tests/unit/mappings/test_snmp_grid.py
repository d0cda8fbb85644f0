"""The mapping engine: from a walk to a batch, and backward to an agent's objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from fabricmon.errors import ConfigError
from fabricmon.mappings.snmp import SnmpMappings, oid
from fabricmon.mappings.snmp_backward import instances
from fabricmon.mappings.snmp_build import build, build_apart
from fabricmon.mappings.snmp_grid import Grid, lacking
from fabricmon.mappings.snmp_walk import Walk, port_names
from fabricmon.model.counters import BY_ID, Scope
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.model.readings import ReadingBatch

IF, IFX = "1.3.6.1.2.1.2.2.1", "1.3.6.1.2.1.31.1.1.1"


def walk(**objects: int | bytes) -> Walk:
    """A walk of three ports and a LAG, and more objects written with underscores."""
    values: dict[tuple[int, ...], int | bytes] = {}
    for index, name, kind in ((1, b"Eth1", 6), (2, b"Eth2", 6), (9, b"Lag1", 161), (3, b"Eth3", 6)):
        values[oid(f"{IFX}.1.{index}")] = name
        values[oid(f"{IF}.3.{index}")] = kind
    values.update({oid(name[1:].replace("_", ".")): value for name, value in objects.items()})
    return Walk(values)


def read(
    text: str, found: Walk, folder: Path, queues: tuple[int, ...] = ()
) -> tuple[Grid, ReadingBatch]:
    """Apply a mapping with these rows."""
    head = "name: mine\ntitle: mine\nverified: here\nrows:\n"
    (folder / "mine.yaml").write_text(head + text, encoding="utf-8")
    profile = SnmpMappings([folder]).profile("mine")
    grid, wanted = build(profile, "leaf1", port_names(profile, found), found, queues)
    return grid, grid.batch("target", *grid.fill(wanted, found), 1_000)


def test_ports_are_those_with_a_cable(tmp_path: Path) -> None:
    """Ports are named by ifName and ordered by number; the aggregate is none."""
    grid, batch = read(
        f"- {{counter: rx_bytes, oid: {IFX}.6}}\n",
        walk(_1_3_6_1_2_1_31_1_1_1_6_2=5, _1_3_6_1_2_1_31_1_1_1_6_9=7),
        tmp_path,
    )
    assert batch.ports.port == ("Eth1", "Eth2", "Eth3")
    assert batch.ports.device == ("leaf1",) * 3
    assert batch.values.tolist() == [[0, 5, 0]]
    assert batch.state.tolist() == [[State.UNSUPPORTED, State.OK, State.UNSUPPORTED]]
    assert grid.if_index == (1, 2, 3)


def test_what_is_absent_everywhere_is_lacking_not_zero(tmp_path: Path) -> None:
    """A counter without any instance has no column, and is named with the reason."""
    grid, batch = read(f"- {{counter: rx_bytes, oid: {IFX}.6}}\n", walk(), tmp_path)
    assert batch.values.shape == (0, 3)
    assert lacking(grid) == {"rx_bytes": "the device does not answer for it"}


def test_the_first_source_that_exists_is_kept_for_all_ports(tmp_path: Path) -> None:
    """64-bit columns win where there are any; ports without do not fall back to 32 bits."""
    rows = (
        f"- {{counter: rx_bytes, oid: {IFX}.6}}\n- {{counter: rx_bytes, oid: {IF}.10, bits: 32}}\n"
    )
    both = walk(_1_3_6_1_2_1_31_1_1_1_6_1=1, _1_3_6_1_2_1_2_2_1_10_1=9, _1_3_6_1_2_1_2_2_1_10_2=9)
    _, batch = read(rows, both, tmp_path)
    assert batch.columns[0].bits == 64
    assert batch.state[0].tolist() == [State.OK, State.UNSUPPORTED, State.UNSUPPORTED]
    _, batch = read(rows, walk(_1_3_6_1_2_1_2_2_1_10_2=9), tmp_path)
    assert (batch.columns[0].bits, batch.values[0].tolist()) == (32, [0, 9, 0])


def test_parts_are_added_and_an_absent_part_adds_nothing(tmp_path: Path) -> None:
    """Unicast and multicast are one count; a port without multicast has its unicast."""
    _, batch = read(
        f"- {{counter: rx_packets, oid: {IFX}.7, add: [{IFX}.8]}}\n",
        walk(
            _1_3_6_1_2_1_31_1_1_1_7_1=10,
            _1_3_6_1_2_1_31_1_1_1_8_1=5,
            _1_3_6_1_2_1_31_1_1_1_7_2=20,
        ),
        tmp_path,
    )
    assert batch.values.tolist() == [[15, 20, 0]]
    assert batch.state.tolist() == [[State.OK, State.OK, State.UNSUPPORTED]]


def test_the_upper_half_comes_from_its_own_column(tmp_path: Path) -> None:
    """A 64-bit count in two Unsigned32 columns is put together."""
    _, batch = read(
        "- {counter: rx_bytes, oid: 1.3.9.1, high: 1.3.9.2, bits: 32}\n",
        walk(_1_3_9_1_1=7, _1_3_9_2_1=1),
        tmp_path,
    )
    assert batch.columns[0].bits == 64
    assert int(batch.values[0, 0]) == (1 << 32) + 7


def test_the_queue_may_stand_in_the_column(tmp_path: Path) -> None:
    """Cumulus counts priority p in column 4+2p."""
    _, batch = read(
        "- {counter: rx_pfc_frames, oid: 1.3.9.4, queue_step: 2}\n",
        walk(_1_3_9_4_1=40, _1_3_9_10_1=43, _1_3_9_5_1=99),
        tmp_path,
    )
    assert {c.queue: int(v[0]) for c, v in zip(batch.columns, batch.values, strict=True)} == {
        0: 40,
        3: 43,
    }


def test_only_the_wanted_queues_are_kept(tmp_path: Path) -> None:
    """Priorities that are not lossless are not read in every poll."""
    grid, batch = read(
        "- {counter: rx_pfc_frames, oid: 1.3.9, index: port.queue}\n",
        walk(_1_3_9_1_2=2, _1_3_9_1_3=3),
        tmp_path,
        (3,),
    )
    assert [c.queue for c in batch.columns] == [3]
    assert lacking(grid) == {}


def test_other_queues_are_a_grid_of_their_own(tmp_path: Path) -> None:
    """With a pace for them, priorities that are not lossless come apart, for the same ports."""
    head = "name: mine\ntitle: mine\nrows:\n"
    rows = f"- {{counter: rx_bytes, oid: {IFX}.6}}\n"
    rows += "- {counter: rx_pfc_frames, oid: 1.3.9, index: port.queue}\n"
    (tmp_path / "mine.yaml").write_text(head + rows, encoding="utf-8")
    profile = SnmpMappings([tmp_path]).profile("mine")
    found = walk(_1_3_6_1_2_1_31_1_1_1_6_1=9, _1_3_9_1_2=2, _1_3_9_1_3=3, _1_3_9_2_5=5)
    names = port_names(profile, found)
    (first, _), (other, wanted) = build_apart(profile, "leaf1", names, found, (3,), None, 6)
    assert [(c.counter.id, c.queue, c.every) for c in first.columns] == [
        ("rx_bytes", -1, 1),
        ("rx_pfc_frames", 3, 1),
    ]
    batch = other.batch("target", *other.fill(wanted, found), 1_000)
    assert [(c.queue, c.every) for c in batch.columns] == [(2, 6), (5, 6)]
    assert batch.values.tolist() == [[2, 0, 0], [0, 5, 0]]
    assert batch.ports is first.ports
    assert len(build_apart(profile, "leaf1", names, found, (), None, 6)) == 1
    assert len(build_apart(profile, "leaf1", names, found, (2, 3, 5), None, 6)) == 1


def test_a_count_per_port_belongs_to_the_only_lossless_queue(tmp_path: Path) -> None:
    """IEEE 802.1Qbb counts per port: an estimate for one lossless queue, nothing for two."""
    row = "- {counter: rx_pfc_frames, oid: 1.3.9, queue: lossless, bits: 32}\n"
    _, batch = read(row, walk(_1_3_9_1=5), tmp_path, (3,))
    assert [(c.queue, c.estimated) for c in batch.columns] == [(3, True)]
    grid, batch = read(row, walk(_1_3_9_1=5), tmp_path, (3, 4))
    assert batch.columns == ()
    assert "rx_pfc_frames" in lacking(grid)


@pytest.mark.parametrize(("enabled", "state"), [(1, State.OK), (2, State.UNSUPPORTED)])
def test_a_gate_says_whether_the_value_means_anything(
    tmp_path: Path, enabled: int, state: State
) -> None:
    """Marks that are not counted read 0: that is unsupported, not zero."""
    gated = "gate: {oid: 1.3.8, equals: 1}"
    grid, batch = read(
        f"- {{counter: ecn_marked_packets, oid: 1.3.9, index: port.queue, {gated}}}\n",
        walk(_1_3_9_1_3=0, _1_3_8_1_3=enabled, _1_3_9_2_3=4, _1_3_8_2_3=1),
        tmp_path,
    )
    assert batch.state[0].tolist() == [state, State.OK, State.UNSUPPORTED]
    assert grid.closed == (("ecn_marked_packets",) if enabled == 2 else ())


def test_gauges_are_in_catalogue_units(tmp_path: Path) -> None:
    """Mb/s become bits per second, cells become bytes, states become 0 and 1; absent is NaN."""
    _, batch = read(
        f"- {{counter: oper_up, oid: {IF}.8, is: 1}}\n"
        f"- {{counter: speed_bps, oid: {IFX}.15, factor: 1000000, slow: true}}\n"
        "- {counter: headroom_bytes, oid: 1.3.9, index: port.queue, unit: 1.3.7.0}\n",
        walk(
            _1_3_6_1_2_1_2_2_1_8_1=1,
            _1_3_6_1_2_1_2_2_1_8_2=7,
            _1_3_6_1_2_1_31_1_1_1_15_1=400_000,
            _1_3_9_1_3=10,
            _1_3_7_0=208,
        ),
        tmp_path,
    )
    rows = {c.counter.id: g for c, g in zip(batch.gauge_columns, batch.gauges, strict=True)}
    assert rows["oper_up"][:2].tolist() == [1, 0]
    assert np.isnan(rows["oper_up"][2])
    assert rows["speed_bps"][0] == 400e9
    assert rows["headroom_bytes"][0] == 2080


def test_settings_that_say_nothing_are_unsupported(tmp_path: Path) -> None:
    """What a priority is set to is 0 or 1, or unknown where the device says it does not apply."""
    row = "{counter: no_drop, oid: 1.3.9, index: port.1.queue, is: 2, void: [3], slow: true}"
    found = walk(_1_3_9_1_1_3=2, _1_3_9_2_1_3=1, _1_3_9_3_1_3=3, _1_3_9_1_2_3=1)
    grid, batch = read(f"- {row}\n", found, tmp_path)
    assert [c.queue for c in batch.gauge_columns] == [3]
    assert batch.gauges[0, :2].tolist() == [1, 0]
    assert np.isnan(batch.gauges[0, 2])
    assert lacking(grid) == {}
    grid, _ = read(f"- {row}\n", walk(_1_3_9_1_1_3=3), tmp_path)
    assert "no_drop" in lacking(grid)
    with pytest.raises(ConfigError, match="`void` is for what is read with the names"):
        read(f"- {row.replace(', slow: true', '')}\n", found, tmp_path)


def test_identity_survives_new_numbers(tmp_path: Path) -> None:
    """The same names under other numbers keep the port set, object and order."""
    (tmp_path / "mine.yaml").write_text("name: mine\ntitle: m\n", encoding="utf-8")
    profile = SnmpMappings([tmp_path]).profile("mine")
    before, _ = build(profile, "leaf1", {1: "Eth1", 2: "Eth2"}, walk())
    after, _ = build(profile, "leaf1", {7: "Eth2", 8: "Eth1"}, walk(), keep=before.ports)
    assert after.ports is before.ports
    assert after.if_index == (8, 7)
    other, _ = build(profile, "leaf1", {7: "Eth2"}, walk(), keep=before.ports)
    assert other.ports is not before.ports


@pytest.mark.parametrize("name", ["sonic", "nxos", "arista", "onyx", "cumulus"])
def test_backward_and_forward_meet(name: str) -> None:
    """What an agent of that kind would have is what its mapping reads, cell by cell."""
    profile = SnmpMappings().profile(name)
    counted = {
        counter: (0, 3) if BY_ID[counter].scope is Scope.QUEUE else (-1,)
        for counter in profile.by_counter
        if counter != "speed_bps"
    }
    numbers = [11, 12]
    values: dict[tuple[int, ...], int | bytes] = {}
    for n, found in enumerate(instances(profile, numbers, counted)):
        values[found.oid] = n if found.counter else found.constant
    for index in numbers:
        values[oid(f"{IFX}.1.{index}")] = b"Eth%d" % index
    tree = Walk(values)
    grid, wanted = build(profile, "leaf1", port_names(profile, tree), tree)
    batch = grid.batch("t", *grid.fill(wanted, tree), 0)
    assert set(lacking(grid)) <= {"speed_bps"}
    found_columns = {(c.counter.id, c.queue) for c in (*batch.columns, *batch.gauge_columns)}
    assert {(c, q) for c, queues in counted.items() for q in queues} <= found_columns
    assert (batch.state == State.OK).all()
