"""Options and output that several commands share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fabricmon.model.incident import Incident

_F = TypeVar("_F", bound="Callable[..., Any]")

config_option = click.option(
    "-c",
    "--config",
    "--config.file",
    "config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="FABRICMON_CONFIG",
    help="The config file (YAML).",
)


def examples(*lines: str) -> str:
    """The end of a command's help; the mark keeps click from filling the lines."""
    return "\n".join(["\b", "Examples:", *(f"  fabricmon {line}" for line in lines)])


def output_option(*formats: str) -> Callable[[_F], _F]:
    """`-o FORMAT`; the first is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print.",
    )


fail_on_incident = click.option(
    "--fail-on-incident", is_flag=True, help="Exit 1 when an incident was found."
)


def print_json(data: object) -> None:
    """One JSON document on stdout."""
    import orjson

    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2
    sys.stdout.write(orjson.dumps(data, option=options).decode())


def print_incidents(incidents: Iterable[Incident], output: str) -> None:
    """Incidents as one JSON array, or as text for people."""
    if output == "json":
        print_json([incident.to_json() for incident in incidents])
        return
    for line in incident_lines(incidents):
        click.echo(line)


def incident_lines(incidents: Iterable[Incident]) -> Iterator[str]:
    """Each incident in a few lines of at most 80 columns; one line when there is none."""
    none = True
    for incident in incidents:
        none = False
        cause = incident.cause
        where = f"{cause.device}[{cause.port}]" if cause else "no single port"
        reason = f" ({incident.reason})" if incident.reason else ""
        yield f"{incident.severity.value.upper()} {incident.kind.value}{reason} at {where}"
        yield f"  verdict {incident.verdict.value}, {incident.state.value}, id {incident.id}"
        if incident.victims:
            names = ", ".join(f"{v.device}[{v.port}]" for v in incident.victims[:3])
            more = f" and {len(incident.victims) - 3} more" if len(incident.victims) > 3 else ""
            yield f"  held back: {names}{more}"
        for name, cost in sorted(incident.jobs.items()):
            yield f"  job {name}: {cost:.1f} GPU-seconds stalled"
        yield from _wrapped(incident.advice)
    if none:
        yield "No incident."


def _wrapped(text: str) -> Iterator[str]:
    import textwrap

    yield from textwrap.wrap(text, 78, initial_indent="  ", subsequent_indent="  ")
