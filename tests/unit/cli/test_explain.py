"""`fabricmon explain` says what a verdict, a counter and an event mean."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from fabricmon.cli import main
from fabricmon.diagnose import rules
from fabricmon.model.counters import BY_ID
from fabricmon.model.incident import IncidentKind
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from click.testing import Result

FIELDS = ("signature", "discriminator", "advice", "limits")


def explain(*arguments: str) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(main, ["explain", *arguments])


@pytest.mark.parametrize("kind", IncidentKind)
def test_a_kind_reads_well(kind: IncidentKind) -> None:
    """Each part is there, whole sentences, on lines that fit a terminal, and JSON says the same."""
    shown = explain(kind.value)
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["kind", *FIELDS]
    said = json.loads(explain(kind.value, "-o", "json").output)
    assert said == {"kind": kind.value, **{f: getattr(rules.catalogue()[kind], f) for f in FIELDS}}
    for field in FIELDS:
        assert said[field][0].isupper() or ":" in said[field].split()[0] or said[field][0] == "`"
        assert said[field].endswith(".")
        assert len(said[field].split()) >= 8
        assert " ".join(said[field].split()) in " ".join(shown.output.split())


def test_counters_and_events_are_explained_too() -> None:
    """A counter with unit and scope, an event with its level."""
    counter = json.loads(explain("rx_pfc_ns", "-o", "json").output)
    assert counter["help"] == BY_ID["rx_pfc_ns"].help
    assert (counter["unit"], counter["scope"]) == ("ns", "queue")
    event = json.loads(explain(Event.INCIDENT_OPENED.label, "-o", "json").output)
    assert event["help"] == Event.INCIDENT_OPENED.help


def test_without_a_name_everything_is_listed() -> None:
    """Every kind, counter and event, whole words on lines that fit."""
    listed = explain()
    words = set(listed.output.split())
    assert {*IncidentKind, *BY_ID, *(event.label for event in Event)} <= words
    assert max(map(len, listed.output.splitlines())) <= 80


def test_an_unknown_name_is_a_usage_error() -> None:
    """Exit 2, with the name and where to look."""
    unknown = explain("slow-recever")
    assert unknown.exit_code == 2
    assert "slow-recever" in unknown.output
    assert "fabricmon explain" in unknown.output
