"""The pipeline: items in, snapshots out; what is gone is not published."""

from __future__ import annotations

import pytest
from support.pipelines import batch, make_pipeline, ports
from support.selfmon import events

from fabricmon.api import Context
from fabricmon.errors import Reason
from fabricmon.model.maintenance import Maintenance
from fabricmon.model.readings import PortSet
from fabricmon.model.snapshot import Snapshot
from fabricmon.model.stream import ClockStep, Item, PollFailure, Tick
from fabricmon.model.topology import Ecn, Intent, Link, Node, PortId, Topology
from fabricmon.runtime.pipeline import Pipeline

_S = 10**9
_START = 1_780_000_000 * _S


class _Run:
    """Feeds one target poll by poll, ten seconds apart."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.now = _START

    def tick(self, *sets: tuple[str, PortSet], partial: bool = False) -> Snapshot:
        """One poll of each given target, then a tick."""
        self.now += 10 * _S
        for target, own in sets:
            value = (self.now - _START) // _S * 1000
            self.pipeline.feed(batch(target, own, value, self.now, partial=partial))
        snapshot = self.pipeline.feed(Tick(self.now, 10.0))
        assert snapshot is not None
        return snapshot


def _present(snapshot: Snapshot) -> set[str]:
    return {str(snapshot.table.ids[i]) for i in snapshot.present.nonzero()[0]}


class TestPresence:
    def test_rates_come_with_the_second_poll(self, context: Context) -> None:
        """1,000 bytes a second for ten seconds is 1,000 bytes a second."""
        run = _Run(make_pipeline(context))
        leaf = ports("leaf", "1", "2")
        run.tick(("leaf", leaf))
        frame = run.tick(("leaf", leaf)).frame
        assert [1000.0, 1000.0] == frame.rate_of("rx_bytes").tolist()

    def test_a_port_that_its_target_no_longer_names_is_gone_at_once(self, context: Context) -> None:
        """The device answered without it: it is not there any more."""
        run = _Run(make_pipeline(context))
        run.tick(("leaf", ports("leaf", "1", "2")))
        assert {"leaf[1]"} == _present(run.tick(("leaf", ports("leaf", "1"))))

    def test_and_back_when_it_is_named_again(self, context: Context) -> None:
        """The same identity gets the same row."""
        run = _Run(make_pipeline(context))
        both = ports("leaf", "1", "2")
        run.tick(("leaf", both))
        run.tick(("leaf", ports("leaf", "1")))
        snapshot = run.tick(("leaf", both))
        assert {"leaf[1]", "leaf[2]"} == _present(snapshot)
        assert 2 == len(snapshot.table)

    def test_a_source_that_tells_only_changes_loses_no_port(self, context: Context) -> None:
        """Silence about a port is no news of its end."""
        run = _Run(make_pipeline(context))
        run.tick(("leaf", ports("leaf", "1", "2")), partial=True)
        snapshot = run.tick(("leaf", ports("leaf", "1")), partial=True)
        assert {"leaf[1]", "leaf[2]"} == _present(snapshot)

    def test_a_silent_target_s_ports_go_after_three_missed_polls(self, context: Context) -> None:
        """One or two missed polls are normal; then the series end."""
        run = _Run(make_pipeline(context))
        leaf = ports("leaf", "1")
        run.tick(("leaf", leaf))
        shown = []
        for _ in range(5):
            run.pipeline.feed(PollFailure("leaf", "snmp", Reason.TIMEOUT, run.now))
            shown.append(bool(_present(run.tick())))
        assert [True, True, True, False, False] == shown

    def test_a_target_taken_from_the_config_is_forgotten(self, context: Context) -> None:
        """Its ports go, those of other targets stay."""
        run = _Run(make_pipeline(context))
        a, b = ("a", ports("a", "1")), ("b", ports("b", "1"))
        run.tick(a, b)
        run.pipeline.forget("a")
        assert {"b[1]"} == _present(run.tick(b))


class TestTopology:
    def test_declared_intent_wins(self, context: Context) -> None:
        """What operators declare is what misconfiguration is judged against."""
        intent = Intent((3,), Ecn.REQUIRED)
        pipeline = make_pipeline(context, intent=intent)
        pipeline.feed(Topology((Node("a", "switch"),), intent=Intent((4,), Ecn.OFF)))
        assert intent == pipeline.topology.intent

    def test_a_rediscovery_that_finds_the_same_changes_nothing(self, context: Context) -> None:
        """The port table's version stands, so that nothing is built anew."""
        pipeline = make_pipeline(context)
        topology = Topology(
            (Node("a", "switch"), Node("b", "switch")), (Link(PortId("a", "1"), PortId("b", "1")),)
        )
        pipeline.feed(topology)
        assert pipeline.topology.links == topology.links
        version = pipeline.table.version
        pipeline.feed(topology)
        assert pipeline.topology.links == topology.links
        assert version == pipeline.table.version

    def test_what_devices_tell_one_by_one_is_one_change(self, context: Context) -> None:
        """A hundred leaves tell of their uplinks, then the spine of all of them: no more news."""
        pipeline = make_pipeline(context)
        nodes = [Node(f"leaf{n}", "switch") for n in range(100)]
        links = [Link(PortId(f"leaf{n}", "u"), PortId("spine", str(n))) for n in range(100)]
        for node, link in zip(nodes, links, strict=True):
            pipeline.feed(Topology((node, Node("spine", "switch")), (link,)))
        pipeline.feed(Tick(10 * _S, 10.0))
        back = tuple(Link(link.b, link.a) for link in links)
        pipeline.feed(Topology((Node("spine", "switch"),), back))
        pipeline.feed(Tick(20 * _S, 10.0))
        assert events(context, "topology_changed") == 1
        assert set(pipeline.topology.links) == set(links)


class TestClockSteps:
    """The wall clock steps between two polls; the monotonic clock, as ever, does not."""

    @pytest.mark.parametrize("hours", [-1.0, 1.0, 720.0, 0.002])
    @pytest.mark.parametrize("device_steps", [True, False])
    def test_no_rate_is_lost_or_wrong(
        self, context: Context, hours: float, *, device_steps: bool
    ) -> None:
        """Whoever stamps the samples, we or a device of which the clock stays right."""
        pipeline, step_ns = make_pipeline(context), round(hours * 3600 * _S)
        for poll in range(20):
            now = _START + poll * 10 * _S
            stepped = step_ns if poll >= 8 else 0
            if poll == 8:
                pipeline.feed(ClockStep(now + stepped, step_ns))
            stamp = now + stepped if device_steps else now
            pipeline.feed(batch("t", ports("leaf", "p1"), poll * 1000, stamp))
            snapshot = pipeline.feed(Tick(now + stepped, 10.0))
            assert snapshot is not None
            assert snapshot.frame.total[0, 0] == poll * 1000
            if poll:
                assert snapshot.frame.rate_of("rx_bytes")[0] == pytest.approx(100.0, rel=1e-3)
            assert snapshot.present.all()


class TestInherit:
    def test_a_reload_loses_no_counter(self, context: Context) -> None:
        """The first tick after a reload has rates: the last sample was kept."""
        run = _Run(make_pipeline(context))
        leaf = ports("leaf", "1")
        run.tick(("leaf", leaf))
        new = make_pipeline(context)
        new.inherit(run.pipeline)
        run.pipeline = new
        assert [1000.0] == run.tick(("leaf", leaf)).frame.rate_of("tx_bytes").tolist()

    def test_a_new_recording_begins_with_the_topology(self, context: Context) -> None:
        """Each recording stands for itself."""
        old = make_pipeline(context)
        topology = Topology((Node("a", "switch"),))
        old.feed(topology)
        seen: list[Item] = []
        make_pipeline(context, taps=[seen.append]).inherit(old)
        assert [topology] == seen

    def test_maintenance_declared_over_http_survives(self, context: Context) -> None:
        """Windows belong to the run, not to one reading of the config."""
        maintenance = Maintenance()
        old = make_pipeline(context, maintenance=maintenance)
        new = make_pipeline(context, maintenance=Maintenance())
        new.inherit(old)
        assert maintenance is new.maintenance
