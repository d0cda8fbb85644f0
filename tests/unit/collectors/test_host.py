"""The collector of hosts, on trees, texts and pages made for the purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.servers import exporter

from fabricmon.api import Context, Target
from fabricmon.collectors.host import HostCollector, HostConfig, kernel
from fabricmon.errors import PollError, Reason
from fabricmon.model.readings import State
from fabricmon.testing import check_collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from fabricmon.model.readings import ReadingBatch

PAGE = """# HELP node_infiniband_port_data_received_bytes_total x
# TYPE node_infiniband_port_data_received_bytes_total counter
node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"} 1.8446744e+08
node_infiniband_roce_slow_restart_total{device="mlx5_0",port="1"} 99
node_infiniband_roce_slow_restart_used_total{device="mlx5_0",port="1"} 7
node_infiniband_np_cnp_packets_sent_total{device="mlx5_0",port="1"} 12
node_ethtool_received_prio3_pause_duration{device="eth0"} 250
node_cpu_seconds_total{cpu="0",mode="idle"} 5
DCGM_FI_PROF_NVLINK_RX_BYTES{gpu="2",Hostname="gpu7"} 1000
DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{gpu="2",Hostname="gpu7"} 3
node_infiniband_state_id{device="mlx5_0",port="1"} 4
node_infiniband_link_downed_total{device="mlx5_0",port="1"} broken
"""

ETHTOOL = """NIC statistics:
     rx_packets_phy: 100
     rx_bytes_phy: 18446744073709551615
     rx_prio3_pause: 11
     rx_prio3_pause_duration: 2500
     tx_prio3_pause: 5
     tx_queue_0_packets: 9
"""


def tree(root: Path) -> Path:
    """A host with one RoCE and one InfiniBand port."""
    files = {
        "mlx5_0/ports/1/state": "4: ACTIVE\n",
        "mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
        "mlx5_0/ports/1/link_layer": "Ethernet\n",
        "mlx5_0/ports/1/counters/port_rcv_data": "1000\n",
        "mlx5_0/ports/1/counters/port_xmit_wait": "4294967295\n",
        "mlx5_0/ports/1/counters/symbol_error": "N/A (no PMA)\n",
        "mlx5_0/ports/1/hw_counters/np_cnp_sent": "42\n",
        "mlx5_0/ports/1/hw_counters/out_of_sequence": "7\n",
        "mlx5_0/ports/1/hw_counters/lifespan": "10\n",
        "mlx5_1/ports/1/state": "1: DOWN\n",
        "mlx5_1/ports/1/link_layer": "InfiniBand\n",
        "mlx5_1/ports/1/counters/port_xmit_data": "5\n",
        "mlx5_0/device/net/ens1/dev_port": "0\n",
    }
    for name, text in files.items():
        path = root / "class" / "infiniband" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def collector(
    address: object, context: Context, names: str = "hca", **options: object
) -> tuple[HostCollector, Target]:
    """A collector with one target."""
    target = Target("f", "gpu1", str(address), options=options)
    return HostCollector(HostConfig(names=names), [target], context), target


def readings(batches: tuple[ReadingBatch, ...]) -> dict[tuple[str, str, int], object]:
    """Every value by port, counter and queue; None where the host does not count it."""
    found: dict[tuple[str, str, int], object] = {}
    for batch in batches:
        for k, column in enumerate(batch.columns):
            for n, port in enumerate(batch.ports.port):
                if batch.state[k, n] != State.MISSING:
                    good = batch.state[k, n] == State.OK
                    value = int(batch.values[k, n]) * column.scale if good else None
                    found[port, column.counter.id, column.queue] = value
        for g, column in enumerate(batch.gauge_columns):
            for n, port in enumerate(batch.ports.port):
                if not np.isnan(batch.gauges[g, n]):
                    found[port, column.counter.id, column.queue] = float(batch.gauges[g, n])
    return found


async def test_a_sysfs_tree(tmp_path: Path, context: Context) -> None:
    """Words become bytes, unreadable counters are unsupported, widths are the hardware's."""
    source, target = collector(tree(tmp_path), context)
    poll = await source.poll(target)
    found = readings(poll.batches)
    assert found["mlx5_0/1", "rx_bytes", -1] == 4000
    assert found["mlx5_0/1", "symbol_errors", -1] is None
    assert found["mlx5_0/1", "cnp_sent", -1] == 42
    assert found["mlx5_0/1", "speed_bps", -1] == 400e9
    assert found["mlx5_0/1", "oper_up", -1] == 1.0
    assert found["mlx5_1/1", "oper_up", -1] == 0.0
    columns = {c.counter.id: c for b in poll.batches for c in b.columns}
    assert columns["out_of_sequence"].bits == 32
    assert columns["cnp_sent"].bits == 64
    assert (columns["tx_wait_ticks"].bits, columns["tx_wait_ticks"].saturates) == (32, True)
    assert set(poll.batches[0].ports.device) == {"gpu1"}
    topology = await source.discover(target)
    assert topology is not None
    assert [node.kind for node in topology.nodes] == ["host"]
    assert kernel.netdevs(tmp_path / "class" / "infiniband") == {"ens1": "mlx5_0/1"}


DRIVERS = {
    "bnxt_re": (
        {
            "rx_bytes": 2**40,
            "tx_pkts": 9,
            "oos_drop_count": 4,
            "to_retransmits": 6,
            "rx_cnp_pkts": 8,
            "rx_ecn_marked_pkts": 12,
        },
        {
            ("rx_bytes", 64): 2**40,
            ("tx_packets", 64): 9,
            ("out_of_sequence", 64): 4,
            ("ack_timeouts", 64): 6,
            ("cnp_handled", 64): 8,
            ("ecn_marked_received", 64): 12,
        },
    ),
    "irdma": (
        {"cnpSent": 2**32 - 1, "cnpHandled": 5, "RxECNMrkd": 2**33, "RetransSegs": 3},
        {
            ("cnp_sent", 32): 2**32 - 1,
            ("cnp_handled", 32): 5,
            ("ecn_marked_received", 64): 2**33,
            ("retransmits", 32): 3,
        },
    ),
    "efa": (
        {"tx_bytes": 77, "rx_drops": 2, "retrans_pkts": 4, "retrans_timeout_events": 1},
        {
            ("tx_bytes", 64): 77,
            ("rx_discards", 64): 2,
            ("retransmits", 64): 4,
            ("ack_timeouts", 64): 1,
        },
    ),
    "mlx5": (
        {"rp_cnp_handled": 2**35, "local_ack_timeout_err": 5, "rnr_nak_retry_err": 6},
        {("cnp_handled", 64): 2**35, ("ack_timeouts", 32): 5, ("rnr_naks", 32): 6},
    ),
}


@pytest.mark.parametrize("driver", DRIVERS)
async def test_each_drivers_counters(driver: str, tmp_path: Path, context: Context) -> None:
    """The counters of every kind of card, each with the width its hardware has."""
    files, expected = DRIVERS[driver]
    folder = tmp_path / "class" / "infiniband" / f"{driver}_0" / "ports" / "1"
    for name, value in {**files, "lifespan": 10}.items():
        (folder / "hw_counters").mkdir(parents=True, exist_ok=True)
        (folder / "hw_counters" / name).write_text(f"{value}\n")
    source, target = collector(tmp_path, context)
    batches = (await source.poll(target)).batches
    bits = {c.counter.id: c.bits for batch in batches for c in batch.columns}
    found = {(name, bits[name]): value for (_, name, _), value in readings(batches).items()}
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            """
            pfc_pri3_rx_duration_us: 2500
            pfc_pri3_tx_duration_us: 40
            pfc_pri3_rx_transitions: 9
            rx_pfc_ena_frames_pri3: 11
            """,
            {("rx_pfc_ns", 3): 2_500_000, ("tx_pfc_ns", 3): 40_000, ("rx_pfc_frames", 3): 11},
        ),
        (
            """
            rx_priority_3_xoff.nic: 21
            tx_priority_3_xoff.nic: 22
            rx_priority_3_xon.nic: 99
            rx_bytes.nic: 18446744073709551615
            """,
            {("rx_pfc_frames", 3): 21, ("tx_pfc_frames", 3): 22, ("rx_bytes", -1): 2**64 - 1},
        ),
    ],
    ids=["bnxt_en", "ice"],
)
async def test_ethtool_of_other_cards(
    text: str, expected: dict[tuple[str, int], int], tmp_path: Path, context: Context
) -> None:
    """Durations where a card has them, in its unit; where it counts XON apart, only XOFF."""
    (tmp_path / "gpu3_eth0.txt").write_text(f"NIC statistics:{text}")
    source, target = collector(tmp_path, context)
    found = readings((await source.poll(target)).batches)
    assert {(name, queue): value for (_, name, queue), value in found.items()} == expected


async def test_names_of_ports(tmp_path: Path, context: Context) -> None:
    """By default an Ethernet port goes by its interface, with the ethtool text of that name."""
    (tree(tmp_path) / "ethtool").mkdir()
    (tmp_path / "ethtool" / "ens1.txt").write_text(ETHTOOL)
    source, target = collector(tmp_path, context, "auto")
    found = readings((await source.poll(target)).batches)
    assert found["ens1", "rx_pfc_ns", 3] == 2_500_000
    assert found["ens1", "rx_bytes", -1] == 2**64 - 1
    assert found["ens1", "cnp_sent", -1] == 42
    assert found["mlx5_1/1", "tx_bytes", -1] == 20


async def test_keeps_the_promises_of_a_collector(tmp_path: Path, context: Context) -> None:
    """Lifecycle, config and cancellation are as every collector promises."""
    target = Target("f", "gpu1", str(tree(tmp_path)))
    await check_collector(lambda: HostCollector(HostConfig(), [target], context), target)


async def test_ethtool_texts(tmp_path: Path, context: Context) -> None:
    """Durations are microseconds, numbers exact; host and interface are in the file's name."""
    (tmp_path / "gpu3_eth0.txt").write_text(ETHTOOL)
    source, target = collector(tmp_path, context)
    poll = await source.poll(target)
    found = readings(poll.batches)
    assert found["eth0", "rx_bytes", -1] == 2**64 - 1
    assert found["eth0", "rx_pfc_ns", 3] == 2_500_000
    assert found["eth0", "tx_pfc_frames", 3] == 5
    assert poll.batches[0].ports.device == ("gpu3",)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A page as node_exporter and dcgm-exporter would serve it."""
    async with exporter(PAGE) as served:
        yield served


async def test_an_exporters_page(url: str, context: Context) -> None:
    """Swapped names are put right, NVLink stands beside the NIC, and bad lines are counted."""
    source, target = collector(f"{url}/metrics", context)
    await source.start()
    poll = await source.poll(target)
    found = readings(poll.batches)
    assert found["mlx5_0/1", "rx_bytes", -1] == 184467440
    assert found["mlx5_0/1", "slow_restarts", -1] == 7
    assert found["mlx5_0/1", "oper_up", -1] == 1.0
    assert found["eth0", "rx_pfc_ns", 3] == 250_000
    assert found["gpu2/nvlink", "nvlink_rx_bps", -1] == 8000.0
    assert found["gpu2/nvlink", "rx_errors", -1] == 3
    assert poll.lost == {Reason.MALFORMED: 1}
    devices = dict(zip(poll.batches[0].ports.port, poll.batches[0].ports.device, strict=True))
    assert devices == {"mlx5_0/1": "127.0.0.1", "eth0": "127.0.0.1", "gpu2/nvlink": "gpu7"}
    await source.stop()
    bad, other = collector(f"{url}/nothing", context)
    await bad.start()
    with pytest.raises(PollError, match="404"):
        await bad.poll(other)
    await bad.stop()


async def test_nothing_there_says_so(tmp_path: Path, context: Context) -> None:
    """A path that is not there is `not_found`; one with nothing in it is `no_data`."""
    source, target = collector(tmp_path / "absent", context)
    with pytest.raises(PollError) as caught:
        await source.poll(target)
    assert caught.value.reason is Reason.NOT_FOUND
    (tmp_path / "x.txt").write_text("hello\n")
    source, target = collector(tmp_path, context)
    with pytest.raises(PollError) as caught:
        await source.poll(target)
    assert caught.value.reason is Reason.NO_DATA


def test_the_ioctl_agrees_with_the_kernel() -> None:
    """An interface without statistics gives none, or an error of the system, never rubbish."""
    try:
        found = kernel.Ethtool().read("lo")
    except OSError:
        found = {}
    assert all(name.startswith("ethtool/") for name in found)
