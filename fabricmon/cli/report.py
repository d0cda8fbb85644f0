"""`fabricmon report`: what happened, from a running daemon, its incident file, or dumps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fabricmon.cli._client import get, is_url, login_options
from fabricmon.cli.common import config_option, examples, output_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fabricmon.report import Plot


@click.command(
    epilog=examples(
        "report http://localhost:10077",
        "report incidents.jsonl -o md",
        "report recording/ -o html > report.html",
    )
)
@click.argument("source", nargs=-1, required=True, metavar="SOURCE...")
@config_option
@login_options
@output_option("text", "md", "html", "json")
def command(
    source: tuple[str, ...], config: Path | None, user: str | None, password_env: str, output: str
) -> None:
    """Answer four questions: is it the fabric, who started it, who suffers, what to do.

    SOURCE is the address of a running daemon (http://host:10077), a file of the jsonl exporter, or
    dumps as `fabricmon replay` takes them; only of dumps the HTML has plots.
    """
    from fabricmon.report import render

    plots: Mapping[str, Plot] = {}
    incidents: list[dict[str, Any]]
    if len(source) == 1 and is_url(source[0]):
        incidents = get(source[0], "/api/v1/incidents", user, password_env)
    elif len(source) == 1 and source[0].endswith(".jsonl"):
        incidents = _from_jsonl(Path(source[0]))
    else:
        incidents, plots = _from_dumps([Path(one) for one in source], config)
    click.echo(render(incidents, output, plots), nl=False)


def _from_jsonl(path: Path) -> list[dict[str, Any]]:
    """Every incident of the file in its last state, open and severe ones first."""
    import orjson

    last: dict[str, dict[str, Any]] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    incident = orjson.loads(line)
                    last[incident["id"]] = incident
                except (orjson.JSONDecodeError, KeyError, TypeError):
                    click.echo(f"{path}:{number}: not an incident; skipped", err=True)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    return sorted(last.values(), key=_worst_first)


def _worst_first(incident: Mapping[str, Any]) -> tuple[Any, ...]:
    order = {"severe": 0, "moderate": 1, "mild": 2}
    return (
        incident["state"] == "closed",
        order.get(incident["severity"], 3),
        -incident["stalled_port_seconds"],
        incident["id"],
    )


def _from_dumps(
    paths: Iterable[Path], config: Path | None
) -> tuple[list[dict[str, Any]], Mapping[str, Plot]]:
    from fabricmon import app, record
    from fabricmon.cli._progress import Watched
    from fabricmon.report import Gatherer
    from fabricmon.runtime.offline import drive

    loaded = app.load(config) if config else None
    context = app.make_context(loaded, level="warning")
    dumps = record.open_source(list(paths), report=context.report, intent=app.intent_of(loaded))
    gather = Gatherer()
    items = Watched(dumps, "ticks judged").items()
    drive(items, app.make_pipeline(dumps.fabric, context, loaded), gather.add)
    return gather.incidents(), gather.plots()
