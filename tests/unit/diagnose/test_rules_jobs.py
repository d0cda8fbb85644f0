"""Jobs that wait for one of theirs, rest, stop and begin: what is the fabric and what is not."""

from __future__ import annotations

import pytest
from support.fabrics import Run, leaf_spine

from fabricmon.model.incident import IncidentKind, Verdict
from fabricmon.model.topology import Job, PortId


def job_of(hosts: int = 8) -> tuple[Job, ...]:
    """One job on the first hosts of two leaves."""
    return (Job("llm", tuple(f"h{n % 2}-{n // 2}" for n in range(hosts))),)


def beat(late: str | None, tick: int, period: int) -> dict[str, dict[PortId, float]]:
    """An iteration: compute, a first part that `late` sends with the rest."""
    phase = tick % period
    use = {}
    for job in job_of():
        for host in job.hosts:
            first = 0.3 if phase == (4 if host == late else 1) else 0.0
            use[PortId(host, "nic")] = 0.01 + first + (0.6 if phase in {4, 5} else 0.0)
    return {"tx_use": use}


@pytest.mark.parametrize(("usual", "longer"), [(6, 9), (11, 18)])
def test_a_job_that_waits_for_one_host_is_not_the_fabric(usual: int, longer: int) -> None:
    """The host that sends last is named, also where few iterations fit into what is looked at."""
    run = Run(leaf_spine(jobs=job_of()))
    for tick in range(121):
        assert not run.tick(beat(None, tick, usual)).open
    for tick in range(2 * longer):
        diagnosis = run.tick(beat("h1-2", tick, longer))
    (found,) = diagnosis.open
    assert (found.kind, found.verdict) == (IncidentKind.COLLECTIVE_STALL, Verdict.NOT_FABRIC)
    assert found.cause is not None
    assert (found.cause.device, found.cause.port) == ("h1-2", "nic")


@pytest.mark.parametrize("period", [9, 10])
@pytest.mark.parametrize("lasts", [12, 24])
def test_what_a_host_sends_beside_its_job_does_not_make_it_late(period: int, lasts: int) -> None:
    """Traffic that begins and ends there bends its sum; it never waited and caught up.

    The pace swings, since what is looked at does not hold whole iterations.
    """
    run = Run(leaf_spine(jobs=job_of()))
    busy = PortId("h1-2", "nic")
    for tick in range(150):
        sent = beat(None, tick, period)
        if 90 <= tick < 90 + lasts:
            sent["tx_use"][busy] += 0.08
        assert not run.tick(sent).open


def test_a_job_that_computes_longer_is_no_incident() -> None:
    """A new phase with a somewhat longer iteration keeps all hosts in step."""
    run = Run(leaf_spine(jobs=job_of()))
    for tick in range(90):
        run.tick(beat(None, tick, 6))
    assert not any(run.tick(beat(None, tick, 8)).open for tick in range(80))


def test_who_stops_or_starts_last_is_no_reason_for_a_stall() -> None:
    """A job that stands still is not judged, nor before it has run as long as is looked back."""
    run = Run(leaf_spine(jobs=job_of()))
    for tick in range(90):
        run.tick(beat(None, tick, 6))
    rest = {PortId(host, "nic"): 0.0 for host in job_of()[0].hosts}
    assert not any(run.tick({"tx_use": rest}).open for _ in range(24))
    again = [run.tick(beat("h1-2" if tick < 18 else None, tick, 6)).open for tick in range(60)]
    assert not any(again)


def test_those_after_a_late_rank_in_a_ring_do_not_hide_it() -> None:
    """Rank k after the late one has k parts of its predecessors to send before it waits, too."""
    run = Run(leaf_spine(jobs=job_of()))
    hosts = [PortId(host, "nic") for host in job_of()[0].hosts]

    def ring(tick: int, waits: int) -> dict[str, dict[PortId, float]]:
        phase = tick % (5 + waits)
        early = [0.06 * rank if phase == 1 and waits else 0.0 for rank in range(8)]
        late = [0.5 - 0.06 * rank if waits else 0.5 for rank in range(8)]
        last = phase == 2 + waits
        use = [
            0.01 + e + (0.4 if phase == 1 + waits else w if last else 0.0)
            for e, w in zip(early, late, strict=True)
        ]
        return {"tx_use": dict(zip(hosts, use, strict=True))}

    for tick in range(90):
        assert not run.tick(ring(tick, 0)).open
    for tick in range(48):
        diagnosis = run.tick(ring(tick, 3))
    (found,) = diagnosis.open
    assert found.kind is IncidentKind.COLLECTIVE_STALL


def test_what_goes_on_at_the_hosts_of_a_job_that_stopped_is_no_stall() -> None:
    """Some other traffic, at a tenth of the job's, is not alike on all hosts."""
    run = Run(leaf_spine(jobs=job_of()))
    for tick in range(90):
        run.tick(beat(None, tick, 6))
    hosts = [PortId(host, "nic") for host in job_of()[0].hosts]
    some = {port: 0.035 + 0.01 * (place % 3) for place, port in enumerate(hosts)}
    assert not any(run.tick({"tx_use": some}).open for _ in range(60))


def test_what_others_send_from_the_hosts_of_a_job_that_stopped_names_none_of_them() -> None:
    """Polls longer than iterations; a rank that sends little by itself shows others the most."""
    hosts = [PortId(host, "nic") for host in job_of()[0].hosts]
    usual = dict(zip(hosts, (0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.2, 0.1), strict=True))
    left = dict(zip(hosts, (0.02, 0.03, 0.04, 0.03, 0.025, 0.02, 0.04, 0.03), strict=True))
    run = Run(leaf_spine(jobs=job_of()))
    run.ticks(60, {"tx_use": usual})
    assert not any(run.tick({"tx_use": left}).open for _ in range(24))


@pytest.mark.parametrize(("pace", "told"), [(0.5, True), (0.7, False)])
def test_a_job_whose_iterations_take_far_longer_stalls_though_no_host_is_last(
    pace: float, told: bool
) -> None:
    """Polls longer than an iteration show only how fast it goes; a new phase is not that slow."""
    run = Run(leaf_spine(jobs=job_of()), interval_s=10.0)
    run.ticks(60)
    slow = {PortId(host, "nic"): 0.4 * pace for host in job_of()[0].hosts}
    found = run.ticks(6, {"tx_use": slow}).open
    assert [i.kind for i in found] == [IncidentKind.COLLECTIVE_STALL] * told
    assert not any(i.cause for i in found)


@pytest.mark.parametrize(("marked", "told"), [("d3", True), ("u0", False)])
def test_a_queue_before_a_host_of_a_job_that_waits_for_another_is_no_trouble(
    marked: str, told: bool
) -> None:
    """All go on at once when the late host comes; a queue on the way of all may be the reason."""
    run = Run(leaf_spine(jobs=job_of()))
    for tick in range(120):
        run.tick(beat(None, tick, 6))
    queue = {"ecn_marked_packets": {PortId("leaf0", marked): 9_000.0}}
    slower = {"tx_use": {PortId("leaf0", marked): 0.2}}
    for tick in range(18):
        late = beat("h1-2", tick, 9)
        use = {"tx_use": late["tx_use"] | slower["tx_use"]}
        found = run.tick(use | (queue if tick % 9 == 1 else {})).open
    assert [i.kind for i in found] == [IncidentKind.COLLECTIVE_STALL] * told


def test_a_job_that_became_slower_as_the_fabric_had_trouble_does_not_wait_for_a_host() -> None:
    """New traffic beside it congests for a while and slows it for longer, one host most."""
    run = Run(leaf_spine(jobs=job_of()))
    for tick in range(120):
        run.tick(beat(None, tick, 6))
    marks = {"ecn_marked_packets": {PortId("leaf0", "u0"): 9_000.0}}
    found = [
        run.tick(beat("h1-2", tick, 9) | (marks if tick < 12 else {})).open for tick in range(60)
    ]
    assert not any(found)


def test_polls_that_held_whole_iterations_never_showed_in_which_order_ranks_send() -> None:
    """Each held one; now iterations are shorter and the polls cut them, where a rank sends last."""
    hosts = [PortId(host, "nic") for host in job_of()[0].hosts]
    cut = (1.1, 0.7, 0.66, 0.7)
    last = {"h0-0": 1.0, "h1-0": 0.75, "h0-1": 0.75}
    run = Run(leaf_spine(jobs=job_of()), interval_s=5.0)
    run.ticks(90)
    for tick in range(40):
        shifted = {host: last.get(host.device, 0.0) for host in hosts}
        now, before = cut[tick % 4], cut[(tick - 1) % 4]
        use = {host: 0.4 * (now + part * (before - now)) for host, part in shifted.items()}
        assert not run.tick({"tx_use": use}).open


def test_a_job_whose_iterations_no_longer_fit_the_polls_that_used_to_tell_its_pace() -> None:
    """Two polls held one iteration; now five do, and two hold all of it or nothing."""
    run = Run(leaf_spine(jobs=job_of()), interval_s=5.0)
    hosts = [PortId(host, "nic") for host in job_of()[0].hosts]

    def burst(tick: int, period: int) -> dict[str, dict[PortId, float]]:
        return {"tx_use": dict.fromkeys(hosts, 0.8 if tick % period == 0 else 0.01)}

    for tick in range(80):
        assert not run.tick(burst(tick, 2)).open
    for tick in range(30):
        found = run.tick(burst(tick, 5)).open
    assert [i.kind for i in found] == [IncidentKind.COLLECTIVE_STALL]


@pytest.mark.parametrize(("waits", "told"), [(0.0, True), (0.2, False)])
def test_a_job_that_waits_for_its_ports_again_as_it_once_did_waits_for_no_host(
    waits: float, told: bool
) -> None:
    """Another job stood still for a while; it comes back, and so does what it makes others wait."""
    run = Run(leaf_spine(jobs=job_of()), interval_s=10.0)
    hosts = [PortId(host, "nic") for host in job_of()[0].hosts]
    run.ticks(24, {"stall": dict.fromkeys(hosts, 0.3)})
    run.ticks(80)
    slow = {"tx_use": dict.fromkeys(hosts, 0.2), "stall": dict.fromkeys(hosts, waits)}
    assert bool(run.ticks(12, slow).open) is told
