"""Real and awkward gNMI-style files: each is read, and says what it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support import samples
from support.gnmi import RECEIVED, read

from fabricmon.model.readings import State

if TYPE_CHECKING:
    from pathlib import Path

T0 = 1_764_460_800_000_000_000
PORT = "Ethernet1/1"


def synthetic(number: str) -> bytes:
    """The one awkward file of a number."""
    (path,) = samples("gnmi", "synthetic").glob(f"{number}_*")
    return path.read_bytes()


SAYS_NOTHING = {
    "sonic/EMPTY_JSON.txt",
    "sonic/transcripts/gNMI_usage_examples_02.txt",  # a Set
    "sonic-utilities/cli-text/wred_queue_counter_test__show_wred_queue_counters_summary.txt",
}
"""Files that hold nothing for us: empty, or totals over ports."""
AT_LEAST = {"gnmic": 128, "jtimon": 24, "sonic": 4071, "sonic-utilities": 2959, "synthetic": 32}
"""Values that were read of each kind when this was written."""


def test_every_file_is_read() -> None:
    """No file raises, and none is passed over in silence.

    Each gives values, names or deletes, or it is told what no mapping knows or what was skipped.
    """
    files: list[Path] = [p for p in sorted(samples("gnmi").rglob("*")) if p.is_file()]
    assert len(files) > 300
    silent, values = set(), dict.fromkeys(AT_LEAST, 0)
    for path in files:
        found = read(path.read_bytes(), path.name)
        name = path.relative_to(samples("gnmi")).as_posix()
        assert all(bad.reason and bad.file == path.name for bad in found.bad), name
        count = sum(
            int((batch.state == State.OK).sum() + (batch.gauges == batch.gauges).sum())
            for batch in found.batches
        )
        kind = name.partition("/")[0]
        values[kind] = values.get(kind, 0) + count
        recorder = found.recorder
        names = any(names.oids or names.aliases for names in recorder.names.values())
        told = found.bad or found.paths.unmatched or found.paths.unkeyed
        if not (count or told or names or recorder.deleted):
            silent.add(name)
    assert silent == SAYS_NOTHING
    assert {kind: count for kind, count in AT_LEAST.items() if values[kind] < count} == {}


PAIRS = sorted(
    path
    for path in samples("gnmi", "sonic").iterdir()
    if path.with_name(f"{path.stem}_expected{path.suffix}").exists()
)


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.name)
def test_sonic_answers_say_what_they_should(path: Path) -> None:
    """A database's keys and the answer its server makes of them hold the same values."""
    answer = path.with_name(f"{path.stem}_expected{path.suffix}")
    ours, theirs = (read(one.read_bytes(), one.name).all() for one in (path, answer))
    assert ours == theirs


def test_where_a_file_is_cut_changes_nothing() -> None:
    """Fed byte by byte or at once, a file gives the same values and the same complaints."""
    for path in sorted(samples("gnmi", "synthetic").iterdir()):
        whole, pieces = read(path.read_bytes()), read(path.read_bytes(), step=7)
        assert whole.all() == pieces.all(), path.name
        assert whole.bad == pieces.bad, path.name


RX: dict[str, list[int]] = {
    "01": [2**64 - 1],
    "02": [2**53],
    "05": [1, 2],
    "06": [1],
    "08": [2],
    "10": [5],
    "12": [3],
    "15": [1],
    "16": [100, 200, 300, 5, 50],
    "20": [1],
    "26": [1, 2],
    "27": [1, 2],
    "28": [1, 2],
}
SKIPPED = {"06": 1, "26": 1, "29": 1}


@pytest.mark.parametrize("number", RX)
def test_awkward_counters(number: str) -> None:
    """Exact, whole, idempotent, resynchronised: each file gives these values of in-octets."""
    found = read(synthetic(number))
    assert found.series("rx_bytes", PORT) == RX[number]
    assert len(found.bad) == SKIPPED.get(number, 0)


def test_what_is_no_number_is_absent() -> None:
    """Values above 64 bits, NaN, infinities, `max`: missing, never zero, and no complaint."""
    rounded = read(synthetic("02"))
    assert rounded.series("tx_bytes", PORT) == []
    assert rounded.recorder.samples.rounded == 0
    assert rounded.recorder.samples.absent == 1
    for number in ("04", "17", "25"):
        found = read(synthetic(number))
        assert found.batches == []
        assert found.bad == []


def test_times() -> None:
    """Units are told by size; a record without a time gets the time it was read, and is counted."""
    units = read(synthetic("12"))
    assert units.batches[0].time_ns.tolist() == [T0]
    assert units.recorder.samples.foreign_units == 3
    missing = read(synthetic("11"))
    assert missing.batches[0].time_ns.tolist() == [RECEIVED]
    assert missing.recorder.samples.untimed == 1
    assert missing.series("oper_up", "e1") == [1.0]


def test_keys() -> None:
    """Reserved characters, module prefixes inside, indexes instead of keys, nameless keys."""
    assert read(synthetic("13")).series("rx_bytes", "eth1/2:3=4 x") == [1]
    prefixed = read(synthetic("18"))
    assert prefixed.series("rx_bytes", "e1") == [7]
    assert "/qos/interfaces/interface/output/queues/queue/state/ecn-marked-pkts" in (
        prefixed.paths.unkeyed
    )
    indexed = read(synthetic("19"))
    assert indexed.series("rx_bytes", "ethernet-1/1") == [5]
    assert indexed.series("rx_bytes", "ethernet-1/2") == [6]
    nameless = read(synthetic("23"))
    assert set(nameless.paths.unmatched) == {"/junos/qmon-sw/egress/peak-buffer-occupancy-bytes"}
    assert read(synthetic("24")).series("tx_bytes", "1/1/1") == [0]


def test_sonic_forms() -> None:
    """The leaf tree of gnmi_cli, and a table with separators and `N/A`, which is missing."""
    tree = read(synthetic("29"))
    assert tree.series("rx_pfc_frames", "Ethernet9", 7) == [0]
    assert len(tree.bad) == SKIPPED["29"]
    table = read(synthetic("30"))
    assert [table.series("rx_pfc_frames", "Ethernet0", q) for q in range(4)] == [
        [1200],
        [201],
        [],
        [203],
    ]


CASES = sorted(
    path.name.removesuffix(".responses.json")
    for path in (samples("gnmi", "telegraf").glob("*.responses.json"))
)


@pytest.mark.parametrize("case", CASES)
def test_vendors_responses_equal_what_telegraf_makes_of_them(case: str) -> None:
    """Wherever a path is mapped, the response and telegraf's line say the same value."""
    folder = samples("gnmi", "telegraf")
    response = read((folder / f"{case}.responses.json").read_bytes())
    expected = read((folder / f"{case}.expected.out").read_bytes())
    ours, theirs = response.all(), expected.all()
    assert response.bad == expected.bad == []
    assert {key: ours[key] for key in theirs} == theirs
    at_least = {"issue_14530": 8, "issue_16515": 16}.get(case, 0)
    assert len(theirs) >= at_least


def test_optics_of_the_weakest_lane() -> None:
    """Of four lanes' power, packed as float32, the lowest counts."""
    path = samples("gnmi", "telegraf", "issue_17154.responses.json")
    found = read(path.read_bytes()).all()
    assert found["et-0/0/0", "rx_power_dbm", -1] == pytest.approx(-0.07, abs=1e-6)
    assert found["et-0/0/0", "tx_power_dbm", -1] == pytest.approx(2.32, abs=1e-6)


@pytest.mark.parametrize(
    ("database", "table"),
    [
        ("tests_mock_tables_counters_db.json", "pfcstat_test__show_pfc_counters_output.txt"),
        (
            "tests_mock_tables_asic0_counters_db.json",
            "pfcstat_test__show_pfc_counters_all_asic.txt",
        ),
        (
            "tests_mock_tables_counters_db.json",
            "wred_queue_counter_test__show_wred_queue_counters.txt",
        ),
        ("tests_mock_tables_counters_db.json", "queue_counter_test__show_queue_counters.txt"),
    ],
)
def test_sonic_database_and_tables_agree(database: str, table: str) -> None:
    """A dump, through its name maps, says what SONiC's own command prints of it."""
    dump = read(samples("gnmi", "sonic-utilities", database).read_bytes(), database)
    printed = read(samples("gnmi", "sonic-utilities", "cli-text", table).read_bytes(), table)
    counters = dump.all()
    said = {key: value for key, value in printed.all().items() if key[2] < 8}
    assert len(said) >= 24
    both: dict[Any, Any] = {key: counters[key] for key in said if key in counters}
    assert len(both) >= 24
    assert both == {key: said[key] for key in both}
