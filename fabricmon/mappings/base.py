"""What every kind of mapping shares: rows, inheritance, loading with file and line in errors."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field

from fabricmon import yamlfile
from fabricmon.model.counters import BY_ID, NO_QUEUE, Counter
from fabricmon.model.readings import Column
from fabricmon.settings import Settings, validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def _known(counter: str) -> str:
    if counter not in BY_ID:
        raise ValueError(f"{counter!r} is not in the catalogue; known: {', '.join(BY_ID)}")
    return counter


CounterId = Annotated[str, AfterValidator(_known)]
"""The id of a catalogue counter."""


class Row(Settings):
    """One thing a source counts. Kinds of mappings add where it is found (OID, path, field)."""

    counter: CounterId
    bits: Literal[4, 8, 16, 32, 64] = 64
    saturates: bool = False
    scale: Annotated[int, Field(ge=1)] = 1
    """Catalogue units per unit of the source: 4 for 4-byte words, 1000 for microseconds."""
    factor: float = 1.0
    """The same for gauges, which may be fractions."""
    estimated: bool = False
    note: str = ""

    @property
    def entry(self) -> Counter:
        """The catalogue entry this row feeds."""
        return BY_ID[self.counter]

    def column(self, *, queue: int = NO_QUEUE, source: str = "") -> Column:
        """The batch column this row fills."""
        return Column(
            self.entry, queue, self.bits, self.saturates, self.scale, source, self.estimated
        )


class MappingFile(Settings):
    """Base of one mapping file. `extends` names the file whose rows it starts from."""

    name: str
    title: str
    extends: str = ""
    abstract: bool = False
    """Only to be extended, never chosen."""
    verified: str = ""
    """Against what this mapping was checked: a capture, a device, or only a document."""


_M = TypeVar("_M", bound=MappingFile)


def load(model: type[_M], kind: str, extra: Sequence[Path] = ()) -> dict[str, _M]:
    """Every mapping of one kind by name: the built-in folder, then users' folders, which win.

    Raises `ConfigError` naming file, line and what is allowed there.
    """
    found: dict[str, _M] = {}
    for path in _yaml_files(kind, extra):
        document = yamlfile.load(path)
        mapping = validate(model, document)
        if mapping.name != path.stem:
            raise document.error(f"must be {path.stem!r}, the name of the file", ("name",))
        if mapping.extends == mapping.name:
            raise document.error("a mapping cannot extend itself", ("extends",))
        found[mapping.name] = mapping
    return found


def _yaml_files(kind: str, extra: Iterable[Path]) -> Iterable[Path]:
    builtin = Path(str(files("fabricmon.mappings"))) / kind
    for folder in (builtin, *extra):
        yield from sorted(folder.glob("*.yaml"))


def ancestry(mappings: dict[str, _M], name: str) -> list[_M]:
    """The mapping and what it extends, nearest first. Raises `KeyError` for unknown names."""
    chain: list[_M] = []
    while name:
        mapping = mappings[name]
        if mapping in chain:
            break
        chain.append(mapping)
        name = mapping.extends
    return chain


def inherited(chain: Sequence[Any], rows: str, key: str) -> list[Any]:
    """Rows of all ancestors, the nearest winning where two have the same `key` attribute."""
    merged: dict[Any, Any] = {}
    for mapping in reversed(chain):
        for row in getattr(mapping, rows):
            merged[getattr(row, key)] = row
    return list(merged.values())
