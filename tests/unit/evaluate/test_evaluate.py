"""Event-wise scoring: what counts as found, as a fragment, as false, and as right."""

from __future__ import annotations

import pytest

from fabricmon.evaluate import Figures, Observed, Run, baselines, score, to_html, to_markdown
from fabricmon.evaluate.figures import wilson
from fabricmon.formats.interchange import Label
from fabricmon.model.topology import Link, PortId, Topology

SECOND = 1_000_000_000
A, B = PortId("leaf0", "d0"), PortId("h0", "nic")
C, D = PortId("leaf1", "d0"), PortId("h1", "nic")
CABLES = Topology(links=(Link(A, B, 1e11), Link(C, D, 1e11)))
FAULT = Label("incast", 100 * SECOND, 140 * SECOND, (A,), (C, D), trigger="oversubscription")


def alarm(
    kind: str = "incast",
    start: int = 102,
    end: int = 130,
    cause: PortId = A,
    *,
    order: int = 0,
    telemetry: bool = False,
) -> Observed:
    """An alarm between two seconds."""
    victims = frozenset({C, D})
    opened = start * SECOND
    return Observed(kind, opened, opened, end * SECOND, (cause,), victims, telemetry, (order,))


def judge(*alarms: Observed, labels: tuple[Label, ...] = (FAULT,)) -> Figures:
    """The figures of one run of 1000 polls of a second, 100 ports."""
    run = Run("run", alarms, labels, CABLES, 1.0, 0, 1000 * SECOND, 100)
    return score([run])


def test_a_fault_is_found_once_with_cause_kind_victims_and_delay() -> None:
    """One overlapping alarm with the right port is a full hit, two polls late."""
    figures = judge(alarm()).to_json()
    assert figures["events"]["tp"] == 1
    assert figures["cause_top1"] == figures["kind_accuracy"] == figures["victim_jaccard"] == 1.0
    assert figures["delay_polls"] == {"median": 2.0, "p95": 2.0}


def test_the_link_partner_is_the_right_cause_and_another_port_is_not() -> None:
    """Either end of the cable is right; top-3 looks further than top-1."""
    assert judge(alarm(cause=B)).causes == [(True, True)]
    assert judge(alarm(cause=C)).causes == [(False, False)]


def test_an_alarm_after_the_fault_counts_until_eight_polls_later() -> None:
    """A late alarm is still a find; one poll later it is false, and the fault is missed."""
    assert judge(alarm(start=148, end=149)).tp == 1
    late = judge(alarm(start=149, end=150))
    assert (late.tp, late.fp, late.fn) == (0, 1, 1)
    assert late.confusion["incast"]["missed"] == 1
    assert late.confusion["healthy"]["incast"] == 1


def test_further_alarms_in_a_fault_are_fragments_not_hits() -> None:
    """The first in the product's own order is judged, the other is a fragment."""
    figures = judge(alarm("slow-receiver", cause=C, order=1), alarm(order=0))
    assert (figures.tp, figures.fragments, figures.fp) == (1, 1, 0)
    assert figures.kinds == [True]
    assert judge(alarm("slow-receiver", cause=C, order=0), alarm(order=1)).kinds == [False]


def test_alarms_on_one_cable_close_together_are_one_event() -> None:
    """Two alarms on both ends of a cable within three polls merge, whatever their kinds."""
    assert judge(alarm(end=110), alarm("slow-receiver", 113, 120, B)).fragments == 0
    assert judge(alarm(end=110), alarm("slow-receiver", 114, 120, B)).fragments == 1


def test_telemetry_and_the_trigger_are_neither_right_nor_wrong() -> None:
    """They change no count; a telemetry label is answered by telemetry."""
    told = alarm("telemetry-stale", 10, 20, telemetry=True)
    figures = judge(told, alarm("oversubscription", cause=C))
    assert (figures.tp, figures.fp, figures.fn) == (0, 0, 1)
    label = Label("telemetry-stale", 5 * SECOND, 30 * SECOND, (PortId("leaf0", ""),))
    assert judge(told, labels=(label,)).tp == 1


def test_false_alarms_are_counted_per_healthy_port_day() -> None:
    """100 ports times 1000 s, less the 40 s of the fault."""
    figures = judge(alarm(start=500, end=510), alarm())
    assert figures.port_days == pytest.approx(100 * 960 / 86_400)
    assert figures.to_json()["false_alarms_per_port_day"] == pytest.approx(0.9, abs=1e-6)


def test_two_faults_at_once_are_each_answered_by_the_alarm_that_fits() -> None:
    """An alarm is given to the fault whose cause it names."""
    other = Label("slow-receiver", 100 * SECOND, 140 * SECOND, (D,))
    figures = judge(alarm("slow-receiver", cause=C), alarm(), labels=(FAULT, other))
    assert (figures.tp, figures.fn, figures.fragments) == (2, 0, 0)
    assert figures.causes == [(True, True), (True, True)]


def test_wilson_interval_is_the_published_one() -> None:
    """Nine of ten: 0.596 to 0.982, as tables give it."""
    low, high = wilson(9, 10)
    assert (round(low, 3), round(high, 3)) == (0.596, 0.982)
    assert wilson(0, 0) == (0.0, 1.0)


def test_baselines_stand_beside_and_are_deterministic() -> None:
    """The always-on alarm finds every fault at a price; the same run scores the same twice."""
    run = Run("run", (), (FAULT,), CABLES, 1.0, 0, 1000 * SECOND, 4, ((110 * SECOND, (C,)),))
    first, again = baselines([run]), baselines([run])
    assert first["always_on"].tp == 1
    assert first["always_on"].fp > 100
    assert first["one_threshold"].tp == 1
    assert {k: v.to_json() for k, v in first.items()} == {k: v.to_json() for k, v in again.items()}


def test_reports_carry_figures_confusion_and_a_plot() -> None:
    """Markdown is a table; HTML stands alone, with the plot inside and no outside reference."""
    groups = {"roce 1 s": judge(alarm())}
    text = to_markdown(groups, {"random": judge()})
    assert "| roce 1 s | 1 | 1 |" in text
    page = to_html(groups, {})
    assert "<svg" in page
    assert "http" not in page
