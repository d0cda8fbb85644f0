"""Every file of the InfiniBand corpus: what it is taken for, how much it tells, what it lacks.

`FILES` names each; a file that is not named fails the test, so that none goes by unseen. Values
that a file shares with no other are held in `test_infiniband.py`.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support import samples

from fabricmon.formats.infiniband import ibdumps, mad
from fabricmon.model.readings import ReadingBatch, State
from fabricmon.record import open_source

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.formats.base import BadRecord

# What it is taken for, blocks of counts, nodes, complaints: for a single file or a folder of them.
FILES = """
awkward/01_sweep_timeout_stderr.txt             ibnetdiscover      0   0 0
awkward/03_ibqueryerrors_no_bad_nodes.txt       ibqueryerrors      0   - 0
awkward/04_ibqueryerrors_ca_header.txt          ibqueryerrors      1   - 1
awkward/05_unknown_counter_names.txt            ibqueryerrors      1   - 1
awkward/07_split_port_sdr_nopeer.txt            ibnetdiscover      0   4 0
awkward/08_roce_only_host_stderr.txt            ibnetdiscover      0   0 3
awkward/13_perfquery_x_capmask2.txt             perfquery          1   - 0
awkward/14_saturated_32bit.txt                  perfquery          1   - 0
awkward/15_ibstat_down_port_lid65535.txt        -                  -   - -
awkward/17_sa_failure_rc0.txt                   ibqueryerrors      0   - 1
awkward/18_details_mislabelled.txt              ibqueryerrors      1   - 1
awkward/19_all_ports_row.txt                    ibqueryerrors      1   - 1
awkward/20_db_csv_leading_space_na.txt          ibdiagnet_db_csv   2   - 0
awkward/21_ibdiagnet2_pm_hex.txt                ibdiagnet_pm       1   - 0
public/ldms/query_out                           perfquery          6   - 0
public/topograph/example.out                    ibnetdiscover      0 622 0
public/treydock/ibnetdiscover/test.out          ibnetdiscover      0   7 0
public/treydock/ibnetdiscover/test2.out         ibnetdiscover      0   6 0
public/treydock/ibswinfo/test-err1.out          -                  -   - -
public/treydock/ibswinfo/test-err2.out          -                  -   - -
public/treydock/ibswinfo/test-err3.out          -                  -   - -
public/treydock/ibswinfo/test1-missing.out      -                  -   - -
public/treydock/ibswinfo/test1.out              -                  -   - -
public/treydock/ibswinfo/test2.out              -                  -   - -
public/treydock/perfquery/0x506b4b03005c2740.out perfquery         1   - 0
public/treydock/perfquery/0x506b4b0300cc02a6.out -                 -   - -
public/treydock/perfquery/0x7cfe9003003b4b96.out perfquery         1   - 0
public/treydock/perfquery/0x7cfe9003003b4bde.out perfquery         1   - 0
public/treydock/perfquery/0x7cfe9003009ce5b0.out perfquery         2   - 0
public/treydock/perfquery-rcv-error/0x506b4b03005c2740-1.out perfquery 1 - 0
public/treydock/perfquery-rcv-error/0x7cfe9003003b4b96-1.out perfquery 1 - 0
public/treydock/perfquery-rcv-error/0x7cfe9003003b4bde-1.out perfquery 1 - 0
public/treydock/perfquery-rcv-error/0x7cfe9003009ce5b0-1.out perfquery 1 - 0
public/treydock/perfquery-rcv-error/0x7cfe9003009ce5b0-2.out perfquery 1 - 0
tools/fail_hca_silent_ibnetdiscover.txt         ibnetdiscover      0  37 0
tools/fail_hca_silent_ibqueryerrors.txt         ibnetdiscover      0   0 0
tools/fail_hca_silent_perfquery.txt             perfquery          0   - 1
tools/fail_leaf2_down_ibnetdiscover_p.txt       ibnetdiscover      0  29 0
tools/fail_leaf2_down_ibqueryerrors.txt         ibqueryerrors    229   - 0
tools/fail_leaf2_down_perfquery.txt             perfquery          0   - 1
tools/guilbaults_exporter_metrics_from_ibsim.prom Prometheus_page  2   - 0
tools/ibdiag_ibhosts.txt                        -                  -   - -
tools/iblinkinfo.txt                            iblinkinfo         0  38 0
tools/iblinkinfo_l.txt                          iblinkinfo         0  38 0
tools/ibnetdiscover.txt                         ibnetdiscover      0  38 0
tools/ibnetdiscover_f.txt                       ibnetdiscover      0  38 0
tools/ibnetdiscover_p.txt                       ibnetdiscover      0  38 0
tools/ibqueryerrors.txt                         ibqueryerrors      2   - 0
tools/ibqueryerrors_counters.txt                ibqueryerrors    278   - 0
tools/ibqueryerrors_counters_data_verbose.txt   ibqueryerrors      0   - 1
tools/ibqueryerrors_data.txt                    ibqueryerrors      2   - 0
tools/ibqueryerrors_details.txt                 ibqueryerrors      2   - 0
tools/ibqueryerrors_guilbaults.txt              ibqueryerrors      2   - 0
tools/ibqueryerrors_skipsl.txt                  ibqueryerrors      2   - 0
tools/ibqueryerrors_treydock_sw.txt             ibqueryerrors      2   - 0
tools/ibroute.txt                               -                  -   - -
tools/ibstatus.txt                              -                  -   - -
tools/oddnames_iblinkinfo_l.txt                 iblinkinfo         0  38 0
tools/oddnames_ibnetdiscover.txt                ibnetdiscover      0  38 0
tools/oddnames_ibnetdiscover_p.txt              ibnetdiscover      0  38 0
tools/perfquery_G.txt                           perfquery          1   - 0
tools/perfquery_a_lid1.txt                      perfquery          0   - 0
tools/perfquery_badlid.txt                      perfquery          0   - 1
tools/perfquery_badport.txt                     perfquery          0   - 1
tools/perfquery_hca_aggr.txt                    perfquery          0   - 0
tools/perfquery_hca_lid7.txt                    perfquery          1   - 0
tools/perfquery_l_lid1.txt                      perfquery          1   - 0
tools/perfquery_l_lid1_1-40.txt                 perfquery         40   - 0
tools/perfquery_lid1_range.txt                  perfquery          3   - 0
tools/perfquery_opt_D.txt                       perfquery          1   - 0
tools/perfquery_opt_E.txt                       perfquery          1   - 0
tools/perfquery_opt_F.txt                       perfquery          0   - 0
tools/perfquery_opt_S.txt                       perfquery          0   - 1
tools/perfquery_opt_X.txt                       perfquery          0   - 1
tools/perfquery_opt_extended_speeds.txt         perfquery          0   - 1
tools/perfquery_opt_flowctlcounters.txt         perfquery          1   - 0
tools/perfquery_opt_oprcvcounters.txt           perfquery          1   - 0
tools/perfquery_opt_rcvcc.txt                   perfquery          0   - 1
tools/perfquery_opt_rcverr.txt                  perfquery          1   - 0
tools/perfquery_opt_rcvsl.txt                   perfquery          0   - 1
tools/perfquery_opt_slrcvbecn.txt               perfquery          0   - 1
tools/perfquery_opt_slrcvfecn.txt               perfquery          0   - 1
tools/perfquery_opt_smplctl.txt                 perfquery          0   - 1
tools/perfquery_opt_swportvlcong.txt            perfquery          0   - 1
tools/perfquery_opt_vlopdata.txt                perfquery          1   - 0
tools/perfquery_opt_vloppackets.txt             perfquery          1   - 0
tools/perfquery_opt_vlxmitcounters.txt          perfquery          1   - 0
tools/perfquery_opt_vlxmitflowctlerrors.txt     perfquery          1   - 0
tools/perfquery_opt_vlxmittimecc.txt            perfquery          0   - 1
tools/perfquery_opt_xmitcc.txt                  perfquery          0   - 1
tools/perfquery_opt_xmtdisc.txt                 perfquery          1   - 0
tools/perfquery_opt_xmtsl.txt                   perfquery          0   - 1
tools/perfquery_port0.txt                       perfquery          1   - 0
tools/perfquery_switch_lid1_port1.txt           perfquery          1   - 0
tools/perfquery_x_hca.txt                       perfquery          1   - 0
tools/perfquery_x_lid1_1-40.txt                 perfquery         40   - 0
tools/perfquery_x_lid1_port1.txt                perfquery          1   - 0
tools/perfquery_xl_lid1.txt                     perfquery          1   - 0
tools/perfquery_xl_lid1_1-40.txt                perfquery         40   - 0
tools/saquery_nr.txt                            -                  -   - -
tools/sminfo.txt                                -                  -   - -
tools/smpquery_nodeinfo.txt                     -                  -   - -
tools/smpquery_portinfo.txt                     -                  -   - -
tools/smpquery_sl2vl.txt                        -                  -   - -
"""
TREES = ("awkward/09_sysfs_no_pma/", "public/pcp/")
"""Copied sysfs trees, which hosts leave: tested below."""

_COUNT = re.compile(r"^(?P<name>[A-Za-z]\w+):\.*\s*(?P<count>\d+)$", re.MULTILINE)
_ERROR = re.compile(r"\[(?P<name>\w+) == (?P<count>\d+)")
_SUM = re.compile(r"^.*port ALL:.*$", re.MULTILINE)
_DETAILS = ("PortXmitDiscardDetails", "PortRcvErrorDetails")
LEFT_OUT = {
    "perfquery": {"PortSelect", "CounterSelect", "CounterSelect2"},
    "ibqueryerrors": {field.name for group in _DETAILS for field in mad.FIELDS[group]},
}
"""What is no count, and what the tool calls by wrong names."""


class Expected(NamedTuple):
    """One line of `FILES`; `-` is None."""

    kind: str | None
    counts: int | None
    nodes: int | None
    complaints: int | None


def expected() -> dict[str, Expected]:
    """`FILES`, read."""
    found = {}
    for line in FILES.strip().splitlines():
        name, kind, *numbers = line.split()
        known = [None if number == "-" else int(number) for number in numbers]
        found[name] = Expected(None if kind == "-" else kind.replace("_", " ", 1), *known)
    return found


def text_of(path: Path) -> str:
    """A file's text; tools print bytes of no particular encoding."""
    return path.read_text("latin-1")


def test_no_file_goes_by_unseen() -> None:
    """The corpus has the files of the list, and no others but sysfs trees."""
    root = samples("infiniband")
    there = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert {name for name in there if not name.startswith(TREES)} == set(expected())


@pytest.mark.parametrize("name", list(expected()))
def test_a_file_is_what_it_is_and_tells_what_it_tells(name: str) -> None:
    """Its kind is found by looking; blocks, nodes and complaints are as many as listed."""
    want = expected()[name]
    bad: list[BadRecord] = []
    text = text_of(samples("infiniband", name))
    kind = ibdumps.sniff(text[:8192].encode("latin-1"))
    assert (kind or None) == want.kind
    if want.kind is None:
        with pytest.raises(ValueError, match="no output of an InfiniBand tool"):
            ibdumps.read(text, bad.append, name)
        return
    dump = ibdumps.read(text, bad.append, name, kind)
    nodes = None if dump.fabric is None else len(dump.fabric.nodes)
    assert (len(dump.counts), nodes, len(bad)) == (want.counts, want.nodes, want.complaints)
    assert {record.file for record in bad} <= {name}


@pytest.mark.parametrize(("kind", "pattern"), [("perfquery", _COUNT), ("ibqueryerrors", _ERROR)])
def test_every_number_a_tool_printed_is_read_as_printed(
    kind: str, pattern: re.Pattern[str]
) -> None:
    """What a pattern alone finds is what the blocks hold, but for sums and what is left out."""
    for name, want in expected().items():
        if want.kind != kind or not want.counts:
            continue
        text = text_of(samples("infiniband", name))
        dump = ibdumps.read(text, lambda _: None, name, kind)
        read = Counter(pair for block in dump.counts for pair in block.values.items())
        printed = Counter(
            (match["name"], int(match["count"]))
            for match in pattern.finditer(_SUM.sub("", text))
            if match["name"] not in LEFT_OUT[kind]
        )
        assert read == printed, name


def test_trees_of_a_host_without_counters_give_none_and_cost_no_other(
    tmp_path: Path, context: Context
) -> None:
    """`N/A (no PMA)` is missing, not zero and not an error; an old driver's names are skipped."""
    for number in (1, 2):
        packed = samples("infiniband", "public", "pcp", f"ib-root-00{number}.tgz").read_bytes()
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(tmp_path / f"pcp{number}", filter="data")
    good = tmp_path / "good" / "sys/class/infiniband/mlx5_0/ports/1/counters"
    good.mkdir(parents=True)
    (good / "port_xmit_data").write_text("1000\n")
    trees = [samples("infiniband", "awkward", "09_sysfs_no_pma"), *tmp_path.iterdir()]
    batches = [
        item
        for item in open_source(trees, report=context.report).items()
        if isinstance(item, ReadingBatch)
    ]
    told = [
        (batch.ports.device[n], column.counter.id, int(batch.values[k, n]) * column.scale)
        for batch in batches
        for k, column in enumerate(batch.columns)
        for n in range(len(batch.ports))
        if batch.state[k, n] == State.OK
    ]
    assert [(counter, value) for _, counter, value in told] == [("tx_bytes", 4000)]
