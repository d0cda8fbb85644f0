"""`fabricmon evaluate`: how good are the verdicts on dumps whose faults are known?"""

from __future__ import annotations

from pathlib import Path

import click

from fabricmon.cli.common import config_option, examples, output_option, print_json


@click.command(epilog=examples("evaluate datasets/ -o html > figures.html"))
@click.argument("datasets", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@config_option
@click.option(
    "--thin",
    type=click.IntRange(min=1),
    multiple=True,
    help="Use every Nth poll (may be repeated).",
)
@output_option("text", "json", "md", "html")
def command(
    datasets: tuple[Path, ...], config: Path | None, thin: tuple[int, ...], output: str
) -> None:
    """Judge each DATASET (a dump with labels.json; without one, healthy) and score the verdicts.

    Scores whole events, never single polls, and prints what a coin, an always-on alarm and one
    threshold would have scored on the same data.
    """
    from fabricmon import app, evaluate
    from fabricmon.cli._progress import counted

    loaded = app.load(config) if config else None
    context = app.make_context(loaded, level="warning")
    work = [(path, factor) for factor in thin or (1,) for path in _folders(datasets)]
    with counted(work, "dumps judged") as todo:
        runs = [app.judge(path, context, loaded, thin=factor) for path, factor in todo]
    baselines = evaluate.baselines(runs)
    groups = {"all": evaluate.score(runs)}
    if len(thin) > 1:
        for factor in thin:
            own = [run for run in runs if run.tags["thin"] == str(factor)]
            groups[f"every {factor}. poll"] = evaluate.score(own)
    if output == "json":
        print_json(
            {
                **groups.pop("all").to_json(),
                "baselines": {name: figures.to_json() for name, figures in baselines.items()},
                "sweep": {name: figures.to_json() for name, figures in groups.items()},
            }
        )
    elif output == "html":
        click.echo(evaluate.to_html(groups, baselines), nl=False)
    else:
        click.echo(evaluate.to_markdown(groups, baselines), nl=False)


def _folders(datasets: tuple[Path, ...]) -> list[Path]:
    """The datasets, and those inside folders that only hold datasets."""
    found: list[Path] = []
    for path in datasets:
        inner = sorted(child for child in path.iterdir() if child.is_dir()) if path.is_dir() else []
        is_dump = path.is_file() or any(child.is_file() for child in path.iterdir())
        found.extend([path] if is_dump or not inner else _folders(tuple(inner)))
    return found
