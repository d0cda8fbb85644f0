"""SONiC's show tables, as text and as JSON."""

from __future__ import annotations

import json

from support.gnmi import read

PFC = """\
Port Rx    PFC0    PFC3
---------  ------  ------
Ethernet0   1,200     N/A
 Ethernet4       7       8

  Port Tx    PFC0    PFC3
---------  ------  ------
Ethernet0       1       2
"""
HISTORY = """\
     Port    Priority    RX Pause Transitions    Total RX Pause Time US
---------  ----------  ----------------------  ------------------------
Ethernet0        PFC3                      12                12,000,000

Ethernet4        PFC3                      21                        7
"""
QUEUES = """\
For namespace :
     Port    TxQ    Counter/pkts    Counter/bytes    Drop/pkts    EcnMarked/pkts
---------  -----  --------------  ---------------  -----------  ----------------
Ethernet8    UC3               5             1,000            2               N/A
Ethernet8    MC9              38               17           68                91
  TxQ        UC3               5                5            5                 5
"""


def test_pfc_tables() -> None:
    """Received and sent stand in tables of their own; separators go, `N/A` is not counted."""
    found = read(PFC.encode()).all()
    assert found == {
        ("Ethernet0", "rx_pfc_frames", 0): 1200,
        ("Ethernet4", "rx_pfc_frames", 0): 7,
        ("Ethernet4", "rx_pfc_frames", 3): 8,
        ("Ethernet0", "tx_pfc_frames", 0): 1,
        ("Ethernet0", "tx_pfc_frames", 3): 2,
    }


def test_pause_times() -> None:
    """The history's microseconds are nanoseconds here; blank lines do not end the table."""
    found = read(HISTORY.encode())
    assert found.series("rx_pfc_ns", "Ethernet0", 3) == [12_000_000_000]
    assert found.series("rx_pfc_ns", "Ethernet4", 3) == [7000]
    assert all(column.estimated for batch in found.batches for column in batch.columns)


def test_queue_tables() -> None:
    """Queues of every kind by their number; totals over all ports are left out."""
    found = read(QUEUES.encode())
    assert found.bad == []
    assert found.series("queue_tx_bytes", "Ethernet8", 3) == [1000]
    assert found.series("queue_discards", "Ethernet8", 9) == [68]
    assert found.series("ecn_marked_packets", "Ethernet8", 3) == []
    assert found.series("ecn_marked_packets", "Ethernet8", 9) == [91]


def test_the_json_form() -> None:
    """`show … -j` says the same of ports and queues."""
    document = {
        "sw|Ethernet0": {"VOQ3": {"totalbytes": "1,000", "droppacket": "N/A", "time": "x"}},
        "Ethernet4": {"UC0": {"ecnmarkedpacket": "5"}},
    }
    found = read(json.dumps(document).encode())
    assert found.all() == {
        ("Ethernet0", "queue_tx_bytes", 3): 1000,
        ("Ethernet4", "ecn_marked_packets", 0): 5,
    }
