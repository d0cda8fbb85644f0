"""Plans of cables made for other tools."""

from __future__ import annotations

import pytest

from fabricmon.errors import FormatError
from fabricmon.formats import cabling

LLDPCTL = """{"lldp": {"interface": [
 {"eth0": {"via": "LLDP", "chassis": {"leaf1": {"id": {"type": "mac", "value": "aa"}}},
   "port": {"id": {"type": "ifname", "value": "swp5"}, "descr": "to gpu1"}}},
 {"eth1": {"chassis": {"leaf2": {"id": {"type": "mac", "value": "bb"}}},
   "port": {"id": {"type": "mac", "value": "cc:dd"}, "descr": "Ethernet7"}}},
 {"eth2": {"chassis": {}, "port": {}}}
]}}"""
LLDPCTL0 = """{"lldp": [{"interface": [{"name": "eth0", "chassis": [{"name": [{"value": "leaf1"}]}],
  "port": [{"id": [{"type": "ifname", "value": "swp5"}]}]}]}]}"""
DOT = """/* plan */ graph "fabric" {
  "leaf1":"swp1" -- "spine1":"swp3" [speed="400G"]
  leaf2:swp1 -- spine1:swp4  # second
  "gpu1":"eth0" -- "leaf1":"swp5"
}"""
CLAB = """name: lab
topology:
  nodes:
    leaf1: {kind: nokia_srlinux}
    client1: {kind: linux}
  links:
    - endpoints: ["leaf1:e1-1", "client1:eth1"]
    - endpoints: [broken]
"""


def ends(text: str, device: str = "") -> set[frozenset[str]]:
    """Cables as sets of `device[port]`."""
    topology = cabling.read(text, device=device)
    return {frozenset((str(link.a), str(link.b))) for link in topology.links}


def test_lldpctl() -> None:
    """Both layouts; a port named by its MAC goes by its description."""
    assert ends(LLDPCTL, "gpu1") == {
        frozenset(("gpu1[eth0]", "leaf1[swp5]")),
        frozenset(("gpu1[eth1]", "leaf2[Ethernet7]")),
    }
    assert ends(LLDPCTL0, "gpu1") == {frozenset(("gpu1[eth0]", "leaf1[swp5]"))}


def test_ptm_dot() -> None:
    """Quoted and bare names, attributes and comments."""
    assert ends(DOT) == {
        frozenset(("leaf1[swp1]", "spine1[swp3]")),
        frozenset(("leaf2[swp1]", "spine1[swp4]")),
        frozenset(("gpu1[eth0]", "leaf1[swp5]")),
    }
    kinds = {node.name: node.kind for node in cabling.read(DOT).nodes}
    assert kinds == {"gpu1": "host", "leaf1": "switch", "leaf2": "switch", "spine1": "switch"}


def test_containerlab() -> None:
    """Endpoints become cables; kind `linux` is a host; a broken link costs itself."""
    assert ends(CLAB) == {frozenset(("leaf1[e1-1]", "client1[eth1]"))}
    assert {n.name: n.kind for n in cabling.read(CLAB).nodes}["client1"] == "host"


@pytest.mark.parametrize("text", ['{"lldp": ', "a: [", "just text", "topology: 5"])
def test_broken_files_say_what_is_wrong(text: str) -> None:
    """What is none of the three is an error that names it."""
    with pytest.raises(FormatError):
        cabling.read(text, file="x")


def test_sniffing() -> None:
    """Each is told by its beginning."""
    assert all(cabling.sniff(text.encode()) for text in (LLDPCTL, DOT, CLAB))
    assert not cabling.sniff(b'{"nodes": []}')
