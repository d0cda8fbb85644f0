"""`fabricmon mappings`: what each vendor mapping covers, and what no mapping knows."""

from __future__ import annotations

import asyncio
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fabricmon.cli._client import get, is_url
from fabricmon.cli.common import output_option, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabricmon.mappings.base import MappingFile, Row


@click.command()
@click.argument("name", required=False)
@click.option(
    "--unmatched",
    metavar="PATH|URL",
    help="List the paths that no mapping knows: of a gNMI-style file or folder, or of all that a"
    " running daemon reads.",
)
@click.option(
    "--dir",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A folder with mappings of your own (may be repeated).",
)
@output_option("text", "json")
def command(
    name: str | None, unmatched: str | None, folders: tuple[Path, ...], output: str
) -> None:
    """List every mapping and the counters it covers; with NAME, its rows.

    A mapping turns a vendor's words (OIDs, paths, fields) into the counters of the catalogue.
    """
    if unmatched is not None:
        _print_unmatched(unmatched, folders, output)
        return
    found = [
        entry for entry in _all(folders) if name is None or name in (entry["name"], entry["key"])
    ]
    if not found:
        raise click.BadParameter(f"no mapping is called {name!r}")
    if output == "json":
        print_json(found)
        return
    for entry in found:
        _print_entry(entry, rows=name is not None)


def _print_entry(entry: dict[str, Any], *, rows: bool) -> None:
    """What one mapping covers; each of its rows, if wanted."""
    click.echo(f"{entry['key']}: {entry['title']}")
    if entry["verified"]:
        for line in textwrap.wrap(f"checked against {entry['verified']}", 76):
            click.echo(f"  {line}")
    if entry["refresh_s"]:
        click.echo(f"  renews its counters every {entry['refresh_s']:g} s")
    if rows:
        for row in entry["rows"]:
            click.echo(f"  {row['counter']:<22} {row['source']}  {_nature(row)}".rstrip())
        return
    covered = ", ".join(dict.fromkeys(row["counter"] for row in entry["rows"]))
    for line in textwrap.wrap(covered, 76):
        click.echo(f"  {line}")


def _nature(row: dict[str, Any]) -> str:
    words = [f"{row['bits']} bit"] if row["bits"] != 64 else []
    words += ["sticks at its maximum"] if row["saturates"] else []
    words += [f"x{row['scale']}"] if row["scale"] != 1 else []
    words += ["estimated by the device"] if row["estimated"] else []
    words += [f"only where {row['gate']}"] if row["gate"] else []
    return f"({', '.join(words)})" if words else ""


def _all(folders: tuple[Path, ...]) -> list[dict[str, Any]]:
    """Every mapping of every kind, what it inherits included."""
    from fabricmon.mappings import base
    from fabricmon.mappings.gnmi import GnmiMapping
    from fabricmon.mappings.host import HostMapping
    from fabricmon.mappings.infiniband import IbMapping
    from fabricmon.mappings.snmp import SnmpMapping, SnmpMappings

    profiles = SnmpMappings(folders)
    entries = []
    for kind, model, words in (
        ("snmp", SnmpMapping, "oid"),
        ("gnmi", GnmiMapping, "path"),
        ("infiniband", IbMapping, "field"),
        ("host", HostMapping, "field"),
    ):
        for mapping in base.load(model, kind, folders if kind in ("snmp", "gnmi") else ()).values():
            if mapping.abstract:
                continue
            rows: Iterable[Row] = getattr(mapping, "rows", ())
            if kind == "snmp":
                rows = profiles.profile(mapping.name).rows
            entries.append(_entry(kind, mapping, rows, words))
    return entries


def _entry(kind: str, mapping: MappingFile, rows: Iterable[Row], word: str) -> dict[str, Any]:
    return {
        "key": f"{kind}/{mapping.name}",
        "name": mapping.name,
        "title": mapping.title,
        "verified": mapping.verified,
        "refresh_s": getattr(mapping, "refresh_s", 0),
        "rows": [
            {
                "counter": row.counter,
                "source": getattr(row, word),
                "bits": row.bits,
                "saturates": row.saturates,
                "scale": row.scale,
                "estimated": row.estimated,
                "gate": gate.oid if (gate := getattr(row, "gate", None)) else "",
            }
            for row in rows
        ],
    }


def _print_unmatched(where: str, folders: tuple[Path, ...], output: str) -> None:
    unknown = _of_daemon(where) if is_url(where) else _of_files(where, folders)
    if output == "json":
        print_json(unknown)
        return
    for name, count in sorted(unknown.items(), key=lambda item: (-item[1], item[0])):
        click.echo(f"{count:>8}  {name}")
    if not unknown:
        click.echo("Every path is known.")


def _of_daemon(url: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for target in get(url, "/api/v1/targets"):
        for path, count in target["unmatched"].items():
            total[path] = total.get(path, 0) + count
    return total


def _of_files(where: str, folders: tuple[Path, ...]) -> dict[str, int]:
    from fabricmon import app
    from fabricmon.api import Target
    from fabricmon.collectors.gnmi.file import GnmiFileCollector, GnmiFileConfig

    if not Path(where).exists():
        raise click.BadParameter(f"{where} does not exist", param_hint="--unmatched")
    target = Target("", where, where)
    config = GnmiFileConfig(mappings=list(folders), backlog=1 << 62)
    collector = GnmiFileCollector(config, [target], app.make_context(level="error"))

    async def read() -> dict[str, int]:
        await collector.start()
        try:
            await collector.poll(target)
            while collector.more(target):
                await collector.poll(target)
            return collector.unmatched
        finally:
            await collector.stop()

    return asyncio.run(read())
