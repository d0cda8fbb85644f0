"""`fabricmon explain`: what a kind, a counter or an event means."""

from __future__ import annotations

import textwrap

import click

from fabricmon.cli.common import output_option, print_json


@click.command()
@click.argument("name", required=False)
@output_option("text", "json")
def command(name: str | None, output: str) -> None:
    """Explain NAME: a kind of incident, a counter of the catalogue, or an event of the log.

    Without NAME, list everything that can be explained.
    """
    from fabricmon.diagnose import rules
    from fabricmon.model.counters import BY_ID
    from fabricmon.selfmon import Event

    kinds = rules.catalogue()
    events = {event.label: event for event in Event}
    if name is None:
        _list(sorted(kinds), list(BY_ID), sorted(events))
        return
    if name in kinds:
        rule = kinds[name]
        fields = ("signature", "discriminator", "advice", "limits")
        facts = {"kind": name, **{field: getattr(rule, field) for field in fields}}
    elif name in BY_ID:
        counter = BY_ID[name]
        facts = {
            "counter": name,
            "help": counter.help,
            "unit": counter.unit,
            "scope": counter.scope.value,
            "moves": counter.kind.value,
        }
    elif name in events:
        facts = {"event": name, "help": events[name].help, "level": events[name].level.value}
    else:
        raise click.BadParameter(f"nothing is called {name!r}; `fabricmon explain` lists all")
    if output == "json":
        print_json(facts)
        return
    for key, text in facts.items():
        body = textwrap.wrap(text, 66, break_on_hyphens=False)
        click.echo(f"{key:<13} {body[0] if body else ''}")
        for line in body[1:]:
            click.echo(f"{'':<13} {line}")


def _list(kinds: list[str], counters: list[str], events: list[str]) -> None:
    for title, names in (("Kinds", kinds), ("Counters", counters), ("Events", events)):
        click.echo(f"{title}:")
        for line in textwrap.wrap("  ".join(names), 76, break_on_hyphens=False):
            click.echo(f"  {line}")
