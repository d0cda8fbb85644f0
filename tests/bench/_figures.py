"""One figure of a benchmark, in the words that `run.py` prints."""

from __future__ import annotations

from typing import Any


def row(
    metric: str, value: float, unit: str, peer: str = "", peer_value: float | None = None
) -> dict[str, Any]:
    """A cost, and the peer's: `ratio` is theirs over ours. `run.py` adds the benchmark's name."""
    beside = None if peer_value is None else round(peer_value, 4)
    ratio = None if peer_value is None else round(peer_value / value, 2)
    return {
        "metric": metric,
        "value": round(value, 4),
        "unit": unit,
        "peer": peer or None,
        "peer_value": beside,
        "ratio": ratio,
    }
