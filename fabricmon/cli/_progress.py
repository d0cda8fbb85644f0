"""How far long work has come, on a terminal; nothing where stderr is none."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fabricmon.model.stream import Tick

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fabricmon.model.stream import Item, Source

_T = TypeVar("_T")


class Watched:
    """A `model.stream.Source` with a bar: of so many `ticks`, or of an unknown number."""

    def __init__(self, source: Source, label: str, ticks: int | None = None) -> None:
        """Nothing is shown until the items are asked for."""
        self.fabric = source.fabric
        self._source, self._label, self._ticks = source, label, ticks

    def items(self) -> Iterator[Item]:
        """The source's own."""
        if not sys.stderr.isatty():
            yield from self._source.items()
            return
        bar: Any = click.progressbar(
            count(),  # without an end, unless there is a length
            length=self._ticks,
            label=self._label,
            file=sys.stderr,
            show_pos=True,
            width=24,
        )
        with bar:
            for item in self._source.items():
                yield item
                if isinstance(item, Tick):
                    bar.update(1)


@contextmanager
def counted(things: Sequence[_T], label: str) -> Iterator[Iterable[_T]]:
    """The same things; the bar moves on with each."""
    if not sys.stderr.isatty():
        yield things
        return
    with click.progressbar(things, label=label, file=sys.stderr, show_pos=True, width=24) as bar:
        yield bar
