"""Finding records in files that somebody broke."""

from __future__ import annotations

import json

import pytest
from support.gnmi import read

from fabricmon.formats.gnmi import gnmi
from fabricmon.formats.system import ethtool

T0 = 1_764_460_800_000_000_000
IN = "/interfaces/interface/state/counters/in-octets"


def line(value: object, seconds: int = 0) -> str:
    """One record without its line end."""
    tags = {"interface_name": "e1", "source": "leaf1:1"}
    event = {"name": "s", "timestamp": T0 + seconds * 10**9, "tags": tags, "values": {IN: value}}
    return json.dumps([event], separators=(",", ":"))


def pretty(value: object, seconds: int = 0) -> str:
    """The same over several lines."""
    return json.dumps(json.loads(line(value, seconds)), indent=2)


@pytest.mark.parametrize(
    ("text", "values", "bad"),
    [
        (line(1)[:70] + line(2), [2], [1]),
        (line(1)[:70] + "\n" + line(2), [2], [1]),
        (pretty(1)[:60] + "\n" + pretty(2), [2], [2]),
        (pretty(1) + "\n" + pretty(2, 9), [1, 2], []),
        (line(1) + line(2, 9), [1, 2], []),
        (line(1) + "\n{broken}\n" + line(2, 9), [1, 2], [2]),
        (line(1) + "\nNone\n" + line(2, 9), [1, 2], [2]),
        ("[leaf1:57400] " + line(1), [1], []),
        ("Got update_123: " + line(1)[1:-1], [1], []),
        (line(float("nan")) + "\n" + line(2, 9), [2], []),
        (
            line(1)
            .replace("leaf1", "le\udcffaf")
            .encode("utf-8", "surrogateescape")
            .decode("latin-1"),
            [1],
            [],
        ),
        ("[\n" + line(1)[1:-1] + ",\n" + line(2, 9)[1:-1] + "\n]", [1, 2], []),
        (line(1) + "\n" + "[" * 2000 + "\n" + line(2, 9), [1, 2], [2]),
        (line("5 ") + "\n" + json.dumps({"name": "x", "tags": 5, "values": {}}), [5], [2]),
        (line(1) + "\n" + json.dumps({"update": {"update": [5]}}), [1], [2]),
    ],
)
def test_resynchronising(text: str, values: list[int], bad: list[int]) -> None:
    """Each broken record is told with its line, and the whole ones around it are read."""
    found = read(text.encode() + b"\n")
    assert found.series("rx_bytes", "e1") == values
    assert [record.line for record in found.bad] == bad


def test_what_is_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line or a record beyond the limit costs itself, and no memory."""
    monkeypatch.setattr(gnmi, "_MAX_RECORD", 5000)
    for text in ('{"x": "' + "y" * 20_000, "{\n" + ' "a": 1,\n' * 2000):
        found = read((text + "\n" + line(2) + "\n").encode(), step=1000)
        assert found.series("rx_bytes", "e1") == [2]
        assert any("longer than" in record.reason for record in found.bad)


def test_ethtool_with_headings() -> None:
    """Several interfaces in one text, each under a heading or the command; odd lines are told."""
    text = """$ ethtool -S eth0
NIC statistics:
     rx_bytes_phy: 5
eth1:
NIC statistics:
     rx_bytes_phy: 6
     what is this
"""
    bad: list[object] = []
    found = list(ethtool.interfaces(text.splitlines(), bad.append, "f"))
    assert found == [
        ("eth0", {"ethtool/rx_bytes_phy": "5"}),
        ("eth1", {"ethtool/rx_bytes_phy": "6"}),
    ]
    assert len(bad) == 1
    assert ethtool.owner("a/gpu1_eth0.txt", "") == ("gpu1", "eth0")
    assert ethtool.owner("a/eth0.txt", "") == ("a", "eth0")
    assert ethtool.owner("a/gpu1.txt", "eth3") == ("gpu1", "eth3")
