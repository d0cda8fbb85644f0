"""Topologies: merging what several sources know, and tiers where nobody said them."""

from __future__ import annotations

from fabricmon.model.topology import (
    Ecn,
    Intent,
    Job,
    Link,
    Node,
    PortFacts,
    PortId,
    Role,
    Topology,
)


def _link(a: str, b: str, speed: float = 0.0) -> Link:
    """`leaf1/1` style ends."""
    return Link(PortId(*a.split("/")), PortId(*b.split("/")), speed)


class TestMerged:
    def test_a_moved_cable_takes_both_its_ends_along(self) -> None:
        """A newer link replaces every older one that shares an end with it."""
        old = Topology(links=(_link("a/1", "b/1"), _link("c/1", "d/1")))
        new = Topology(links=(_link("a/1", "c/1"),))
        assert (_link("a/1", "c/1"),) == old.merged(new).links

    def test_the_later_source_wins_for_what_it_speaks_of(self) -> None:
        """Nodes, facts, jobs and intent; what it does not mention stays."""
        old = Topology(
            nodes=(Node("a", "switch"), Node("h", "host")),
            ports=(PortFacts(PortId("a", "1"), speed_bps=1e9),),
            jobs=(Job("j", ("h",)),),
            intent=Intent((3,), Ecn.REQUIRED),
        )
        new = Topology(
            nodes=(Node("a", "switch", Role.LEAF),), ports=(PortFacts(PortId("a", "1"), 4e11),)
        )
        merged = old.merged(new)
        assert {"a": Role.LEAF, "h": Role.UNKNOWN} == {n.name: n.role for n in merged.nodes}
        assert 4e11 == merged.ports[0].speed_bps
        assert (old.jobs, old.intent) == (merged.jobs, merged.intent)

    def test_a_cable_told_again_from_either_end_is_no_news(self) -> None:
        """Each of its devices tells of a cable, without its speed; order and speed stay."""
        links = (_link("a/1", "b/1", 4e11), _link("a/2", "c/1", 1e11))
        known = Topology(links=links)
        assert known == known.merged(Topology(links=(_link("b/1", "a/1"),)))
        faster = known.merged(Topology(links=(_link("b/1", "a/1", 8e11),)))
        assert faster.links == (_link("a/1", "b/1", 8e11), links[1])

    def test_many_at_once_are_as_one_after_the_other(self) -> None:
        """Cables that move, nodes that change, a map of jobs and the end of it."""
        parts = (
            Topology((Node("a", "switch"),), (_link("a/1", "b/1"), _link("c/1", "d/1"))),
            Topology(links=(_link("a/1", "c/1", 1e9),), jobs=(Job("j", ("h",)),)),
            Topology(
                (Node("a", "switch", Role.LEAF),), (_link("b/1", "d/1"),), intent=Intent((3,))
            ),
            Topology(idle=True, interval_s=5.0),
        )
        whole = Topology()
        for part in parts:
            whole = whole.merged(part)
        assert Topology().merged(*parts) == whole

    def test_merging_twice_changes_nothing(self) -> None:
        """A rediscovery that finds the same fabric is no change."""
        topology = Topology((Node("a", "switch"),), (_link("a/1", "b/1", 1e9),))
        assert topology == topology.merged(topology)


class TestInferredRoles:
    def test_tier_is_the_distance_from_the_nearest_host(self) -> None:
        """host, leaf, spine, core; what no host is reached from stays unknown."""
        nodes = (Node("h", "host"), *(Node(n, "switch") for n in ("l", "s", "c", "lost")))
        links = (_link("h/1", "l/1"), _link("l/2", "s/1"), _link("s/2", "c/1"))
        roles = {n.name: n.role for n in Topology(nodes, links).with_inferred_roles().nodes}
        expected = {
            "h": Role.HOST, "l": Role.LEAF, "s": Role.SPINE, "c": Role.CORE, "lost": Role.UNKNOWN,
        }  # fmt: skip
        assert expected == roles

    def test_what_was_said_is_not_overruled(self) -> None:
        """Declared roles stay."""
        nodes = (Node("h", "host", Role.HOST), Node("l", "switch", Role.SPINE))
        topology = Topology(nodes, (_link("h/1", "l/1"),))
        assert topology is topology.with_inferred_roles()
