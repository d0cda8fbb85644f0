"""`fabricmon once`: one poll of every target, printed."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from fabricmon.cli.common import config_option, output_option, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from fabricmon.model.readings import Column, Poll, ReadingBatch
    from fabricmon.runtime.once import Outcome

Value: TypeAlias = "tuple[ReadingBatch, Column, int, float | None, str]"


@click.command()
@config_option
@output_option("text", "json", "prom")
@click.option("--target", "only", multiple=True, help="Only this target (may be repeated).")
def command(config: Path | None, output: str, only: tuple[str, ...]) -> None:
    """Poll every target once and print each value with its state. Exit 1 if a target failed."""
    from fabricmon import app
    from fabricmon.runtime.once import poll_once

    loaded = app.load(config)
    context = app.make_context(loaded)
    assembly = app.assemble(loaded, context)
    try:
        outcomes = asyncio.run(poll_once(assembly, set(only)))
    except LookupError as error:
        raise click.BadParameter(str(error), param_hint="--target") from error
    if output == "prom":
        sys.stdout.write(app.render_once(loaded, context, outcomes))
    elif output == "json":
        print_json([row for outcome in outcomes for row in _rows(outcome)])
    else:
        for outcome in outcomes:
            _print_text(outcome)
    if any(outcome.poll is None for outcome in outcomes):
        sys.exit(1)


def _rows(outcome: Outcome) -> Iterator[dict[str, Any]]:
    if outcome.poll is None:
        return
    from fabricmon.model.counters import NO_QUEUE
    from fabricmon.model.incident import rfc3339

    for batch, column, i, value, state in _values(outcome.poll):
        yield {
            "time": rfc3339(int(batch.time_ns[i])),
            "target": outcome.target.name,
            "device": batch.ports.device[i],
            "port": batch.ports.port[i],
            "queue": None if column.queue == NO_QUEUE else column.queue,
            "counter": column.counter.id,
            "value": value,
            "state": state,
        }
    yield from _lacking(outcome)


def _lacking(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Counters the whole device lacks, one row a port as for those that some ports lack."""
    from fabricmon.model.incident import rfc3339

    assert outcome.poll is not None
    ports = {
        (batch.ports.device[i], batch.ports.port[i]): int(batch.time_ns[i])
        for batch in outcome.poll.batches
        for i in range(len(batch.ports))
    }
    for (device, port), time_ns in ports.items():
        for counter in outcome.lacks:
            yield {
                "time": rfc3339(time_ns),
                "target": outcome.target.name,
                "device": device,
                "port": port,
                "queue": None,
                "counter": counter,
                "value": None,
                "state": "unsupported",
            }


def _values(poll: Poll) -> Iterable[Value]:
    """The newest of every value: a file that was followed has its history in one poll."""
    newest: dict[tuple[str, str, str, int], Value] = {}
    for value in _every_value(poll):
        batch, column, i, _, state = value
        key = (batch.ports.device[i], batch.ports.port[i], column.counter.id, column.queue)
        if state != "missing" or key not in newest:
            newest[key] = value
    return newest.values()


def _every_value(poll: Poll) -> Iterator[Value]:
    """(batch, column, row, value in catalogue units, state name) of everything that was read."""
    from fabricmon.model.readings import State

    for batch in poll.batches:
        names = {int(state): state.name.lower() for state in State}
        for i in range(len(batch.ports)):
            for k, column in enumerate(batch.columns):
                state = int(batch.state[k, i])
                raw = int(batch.values[k, i])
                if state == State.OK and column.saturates and raw >= (1 << column.bits) - 1:
                    state = int(State.SATURATED)
                known = state < State.MISSING or state == State.SATURATED
                yield batch, column, i, raw * column.scale if known else None, names[state]
            for g, column in enumerate(batch.gauge_columns):
                level = float(batch.gauges[g, i])
                missing = level != level  # noqa: PLR0124 - NaN is the only one
                yield batch, column, i, None if missing else level, "missing" if missing else "ok"


def _print_text(outcome: Outcome) -> None:
    name = outcome.target.name
    if outcome.poll is None:
        click.echo(f"{name}: failed ({outcome.reason}): {outcome.message}")
        return
    lost = ", ".join(f"{count} {reason.value}" for reason, count in outcome.poll.lost.items())
    click.echo(f"{name}:" + (f" (lost: {lost})" if lost else ""))
    for batch, column, i, value, state in _values(outcome.poll):
        queue = f" queue {column.queue}" if column.queue >= 0 else ""
        shown = "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:g}"
        note = "" if state == "ok" else f"  ({state})"
        port = f"{batch.ports.device[i]}[{batch.ports.port[i]}]"
        click.echo(f"  {port}{queue} {column.counter.id} {shown}{note}")
    for counter, why in outcome.lacks.items():
        click.echo(f"  lacks {counter}: {why}")
