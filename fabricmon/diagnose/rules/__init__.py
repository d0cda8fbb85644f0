"""One rule a file; this folder is the registry. Outside rules come by entry point.

A rule is a class with `kind`, `signature`, `discriminator`, `advice`, `limits` (what
`fabricmon explain` prints) and `findings(view)`. Its module's name is its kind.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from fabricmon import plugins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.api import Rule


def catalogue() -> dict[str, type[Rule]]:
    """Every rule by kind: this folder's, then what is installed beside it."""
    found: dict[str, type[Rule]] = {}
    for module in iter_modules(__path__):
        loaded = import_module(f"{__name__}.{module.name}")
        rule: type[Rule] = loaded.RULE
        found[rule.kind] = rule
    for kind in plugins.kinds(plugins.RULES):
        found.setdefault(kind, plugins.find(plugins.RULES, kind))
    return found


def make(disabled: Sequence[str] = ()) -> list[Rule]:
    """One instance of every rule that is not `disabled`."""
    return [rule() for kind, rule in catalogue().items() if kind not in disabled]
