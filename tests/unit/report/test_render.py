"""Incidents for people."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from support.snapshots import START_NS, make_frame, make_incident, make_snapshot, make_table

from fabricmon.model.incident import Cause, IncidentKind, IncidentState, Verdict, Victim
from fabricmon.report import FORMATS, Gatherer, render

HOSTILE = 'x\x1b[2J<script>alert(1)</script>|`**"\n# head'


def _incident(**changes: object) -> dict[str, object]:
    victims = [Victim(f"leaf{i}", "up0", 0.9 - i / 10) for i in range(7)]
    return make_incident(victims=victims, **changes).to_json()


def test_the_first_line_is_the_verdict() -> None:
    """Whose it is, what, where and how many suffer: before anything else, in every format."""
    said = "slow-receiver at host1 [mlx5_0/1]; 7 ports are held back."
    text = render([_incident()])
    assert text.startswith("No, it is a host; the fabric only passes it on. ")
    for fmt in ("text", "html"):
        assert said in " ".join(render([_incident()], fmt).split())
    assert "slow-receiver at host1 \\[mlx5\\_0/1\\]; 7 ports" in render([_incident()], "md")


def test_nothing_found_says_so() -> None:
    """A healthy run is one sentence, not an empty page."""
    assert render([]) == "No incident: nothing says that it is the fabric.\n"
    for fmt in ("md", "html"):
        assert "No incident" in render([], fmt)
    assert render([], "json") == "[]\n"


def test_text_fits_eighty_columns() -> None:
    """Whatever the names, and with every question answered."""
    long = "leaf-with-a-name-that-goes-on-" * 3
    cause = Cause(long, long, 3, long, long, 0.9)
    text = render([make_incident(cause, [Victim(long, long, 0.5)]).to_json(), _incident()])
    assert max(len(line) for line in text.splitlines()) <= 80
    for question in (
        "Is it the fabric?",
        "Who started it?",
        "Who suffers?",
        "What to do?",
        "When?",
        "At what cost?",
        "How is it known?",
    ):
        assert question in text
    assert "stall at leaf1 [Ethernet1]: 83 %; healthy: below 0.02; from rx_pfc_ns" in " ".join(
        text.split()
    )
    assert "and 2 more" in text


def test_times_and_costs_are_readable() -> None:
    """Units with prefixes, times to the second, open incidents until now."""
    text = " ".join(render([_incident(jobs={"llm-1": 1860.0, "llm-2": 90_000.0})]).split())
    assert "2023-11-14 22:13:20 UTC to now" in text
    assert "llm-1 lost 31 min of GPU time; llm-2 lost 25 h of GPU time; 400 GB not sent;" in text
    assert "33 s of port time" in text
    closed = _incident(state=IncidentState.CLOSED, ended_ns=START_NS + 60 * 10**9)
    assert "22:13:20 UTC to 2023-11-14 22:14:20 UTC" in " ".join(render([closed]).split())


def test_money_is_told_with_a_price() -> None:
    """GPU time that was lost has its cost behind it, and no word about money without a price."""
    priced = _incident(jobs={"llm-1": 1800.0}, price_per_gpu_hour=3.0)
    text = " ".join(render([priced]).split())
    assert "llm-1 lost 30 min of GPU time (cost 1.50);" in text
    assert "(cost" not in " ".join(render([_incident(jobs={"llm-1": 1800.0})]).split())


def test_a_verdict_can_be_that_it_is_not_the_fabric() -> None:
    """With no cause to be named, too."""
    incident = make_incident(
        kind=IncidentKind.COLLECTIVE_STALL, verdict=Verdict.NOT_FABRIC, causes=()
    )
    text = render([incident.to_json()])
    assert text.startswith("No, it is not the fabric. collective-stall at no port can be named")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        del attrs
        self.tags.add(tag)


@pytest.mark.parametrize("fmt", FORMATS)
def test_hostile_names_are_harmless(fmt: str) -> None:
    """No control character reaches a terminal, no tag or markup a page."""
    cause = Cause(HOSTILE, HOSTILE, None, HOSTILE, HOSTILE, 0.9)
    incident = make_incident(cause, [Victim(HOSTILE, HOSTILE, 0.5)], advice=HOSTILE)
    out = render([incident.to_json()], fmt)
    assert "\x1b" not in out
    if fmt == "html":
        parser = _Tags()
        parser.feed(out)
        assert "script" not in parser.tags
    if fmt == "md":
        assert not re.search(r"^# head", out, re.MULTILINE)
        assert not re.search(r"(?<!\\)<script", out)
    if fmt == "json":
        assert json.loads(out) == [incident.to_json()]


def test_an_unknown_format_is_named() -> None:
    """With the ones there are."""
    with pytest.raises(ValueError, match="text, md, html, json"):
        render([], "pdf")


def test_plots_show_the_ports_around_the_incident() -> None:
    """The gatherer keeps what was held back; the plot spans start and end and shades them."""
    table = make_table([("leaf1", "Ethernet1"), ("leaf2", "Ethernet1"), ("calm", "1")])
    gather = Gatherer()
    victims = [Victim("leaf1", "Ethernet1", 0.9), Victim("leaf2", "Ethernet1", 0.4)]
    started = START_NS + 20 * 10**10
    for tick in range(60):
        fault = 20 <= tick < 30
        frame = make_frame(
            3, stall=[0.9, 0.4, 0.0] if fault else [0, 0, 0], time_ns=START_NS + tick * 10**10
        )
        changes = {"started_ns": started}
        incident = make_incident(victims=victims, **changes)
        if tick == 30:
            changes |= {"state": IncidentState.CLOSED, "ended_ns": START_NS + 30 * 10**10}
            incident = make_incident(victims=victims, **changes)
            gather.add(make_snapshot(table, frame, tick=tick, closed=[incident]))
        else:
            gather.add(
                make_snapshot(table, frame, tick=tick, incidents=[incident] if fault else [])
            )
    (plot,) = gather.plots().values()
    assert [name for name, _ in plot.lines] == ["leaf1[Ethernet1]", "leaf2[Ethernet1]"]
    assert len(plot.times_s) == 12 + 11 + 12
    assert np.isclose(max(plot.lines[1][1]), 0.4)
    (incident_json,) = gather.incidents()
    assert incident_json["state"] == "closed"
    page = render([incident_json], "html", gather.plots())
    svg = re.search(r"<svg.*?</svg>", page, re.DOTALL)
    assert svg is not None
    drawing = ET.fromstring(svg[0])
    assert len(drawing.findall("polyline")) == 2
    assert "<td>leaf1[Ethernet1]</td>" in page
