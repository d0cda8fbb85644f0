"""Run benchmarks and print their figures as JSON lines: `python tests/bench/run.py [NAME]`.

Each benchmark is a module beside this file with `run()`, which yields `_figures.row`s; printed
are `{"bench", "metric", "value", "unit", "peer", "peer_value", "ratio"}`. Product and peer take
turns in the same run; `ratio` is the peer's cost over the product's, so higher is better.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

_HERE = Path(__file__).parent
_KEYS = ("bench", "metric", "value", "unit", "peer", "peer_value", "ratio")


def names() -> list[str]:
    """Every benchmark."""
    return sorted(p.stem for p in _HERE.glob("*.py") if p.stem != "run" and p.stem[0] != "_")


def main(wanted: list[str]) -> int:
    """Print the rows of the wanted benchmarks (all, if none is named)."""
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; known: {', '.join(names())}")
        return 2
    for path in (str(_HERE), str(_HERE.parent)):
        sys.path.insert(0, path)
    for name in wanted or names():
        for row in import_module(name).run():
            named = {"bench": name, **row}
            print(json.dumps({key: named.get(key) for key in _KEYS}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
