"""One small line plot as SVG text: no library, no script, readable in light and dark."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabricmon.report.gather import Plot

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4")
_WIDTH, _HEIGHT = 820, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 24
_ROW = 18
"""Height of a row of the legend."""


def draw(plot: Plot) -> str:
    """Stall ratios over time; the time of the incident is shaded; a legend names the lines."""
    begin, end = plot.times_s[0], max(plot.times_s[-1], plot.times_s[0] + 1e-9)
    inner_w, inner_h = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(time: float) -> float:
        share = min(1.0, max(0.0, (time - begin) / (end - begin)))
        return round(_LEFT + inner_w * share, 1)

    def y(ratio: float) -> float:
        return round(_TOP + inner_h * (1 - min(1.0, ratio)), 1)

    left, right = x(plot.start_s), x(plot.end_s if plot.end_s is not None else end)
    place = f'x="{left}" y="{_TOP}" width="{max(1.0, right - left):.1f}" height="{inner_h}"'
    parts = [f'<rect {place} fill="#cc3d8f" opacity="0.12"/>']
    parts += [
        f'<path d="M{_LEFT} {y(share)}H{_WIDTH - _RIGHT}" stroke="#8a94a0" opacity="0.5"/>'
        f'<text x="{_LEFT - 6}" y="{y(share) + 4}" text-anchor="end">{share:.0%}</text>'
        for share in (0.0, 0.5, 1.0)
    ]
    for time, anchor in ((begin, "start"), (end, "end")):
        stamp = datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S")
        parts.append(
            f'<text x="{x(time)}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{stamp} UTC</text>'
        )
    for number, (port, values) in enumerate(plot.lines):
        at = zip(plot.times_s, values, strict=True)
        parts.append(_line(number, port, " ".join(f"{x(time)},{y(value)}" for time, value in at)))
    label = "Stall ratio of the ports held back; the shaded part is the incident"
    height = _HEIGHT + _ROW * len(plot.lines) + 8
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def _line(number: int, port: str, points: str) -> str:
    """A port's line, and its row of the legend below."""
    i, bottom = number % len(_COLOURS), _HEIGHT + _ROW * (number + 1)
    style = f'stroke="{_COLOURS[i]}" stroke-dasharray="{_DASHES[i]}" stroke-width="2"'
    return (
        f'<polyline points="{points}" fill="none" {style}/>'
        f'<path d="M{_LEFT} {bottom - 4}h30" {style}/>'
        f'<text x="{_LEFT + 38}" y="{bottom}">{escape(port)}</text>'
    )
