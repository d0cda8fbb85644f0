"""One rule a file. They come by entry point, the built-in ones through the same door as others.

A rule is a class with `kind`, `signature`, `discriminator`, `advice`, `limits` (what
`fabricmon explain` prints) and `findings(view)`. Its module's name is its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon import plugins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.api import Rule


def catalogue() -> dict[str, type[Rule]]:
    """Every rule by kind."""
    return {kind: plugins.find(plugins.RULES, kind) for kind in plugins.kinds(plugins.RULES)}


def make(disabled: Sequence[str] = ()) -> list[Rule]:
    """One instance of every rule that is not `disabled`."""
    return [rule() for kind, rule in catalogue().items() if kind not in disabled]
