"""The figures for people: Markdown, and one self-contained HTML page with inline plots."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fabricmon.evaluate.figures import Figures

_COLUMNS = (
    ("precision", "events", "precision"),
    ("recall", "events", "recall"),
    ("cause top-1", "cause_top1", None),
    ("cause top-3", "cause_top3", None),
    ("kind", "kind_accuracy", None),
    ("victims", "victim_jaccard", None),
    ("delay p50", "delay_polls", "median"),
    ("delay p95", "delay_polls", "p95"),
)
_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.2em .6em;"
    "text-align:right}td:first-child,th:first-child{text-align:left}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}td,th{border-color:#444}}"
)
_BAR = 22


def _value(figures: Mapping[str, Any], key: str, inner: str | None) -> float | None:
    found = figures[key]
    value: float | None = found[inner] if inner else found
    return value


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _rows(named: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    return [
        [name, *(_text(_value(figures, key, inner)) for _, key, inner in _COLUMNS)]
        for name, figures in named.items()
    ]


def _confusion(figures: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    table = figures["confusion"]
    said = sorted({kind for row in table.values() for kind in row})
    rows = [[kind, *(str(row.get(k, "")) for k in said)] for kind, row in table.items()]
    return ["is \\ said", *said], rows


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _sections(
    groups: Mapping[str, Figures], baselines: Mapping[str, Figures]
) -> list[tuple[str, list[str], list[list[str]]]]:
    """(title, head, rows) of every table."""
    names = [name for name, _, _ in _COLUMNS]
    done = {name: figures.to_json() for name, figures in groups.items()}
    beside = {name: figures.to_json() for name, figures in baselines.items()}
    sections = [("Figures", ["runs", *names], _rows(done))]
    if beside:
        sections.append(("Baselines on the same runs", ["baseline", *names], _rows(beside)))
    for name, figures in done.items():
        if figures["per_kind"]:
            sections.append((f"{name}: per kind", ["kind", *names], _rows(figures["per_kind"])))
        head, rows = _confusion(figures)
        if rows:
            sections.append((f"{name}: confusion", head, rows))
    return sections


def _alarms_line(groups: Mapping[str, Figures]) -> list[str]:
    lines = []
    for name, figures in groups.items():
        done = figures.to_json()
        rate = _text(done["false_alarms_per_port_day"])
        lines.append(f"{name}: {rate} false alarms per port-day in {figures.port_days:.4g}")
    return lines


def to_markdown(groups: Mapping[str, Figures], baselines: Mapping[str, Figures]) -> str:
    """Tables of every group of runs (name -> figures), with the baselines beside them."""
    parts = ["# Evaluation", *(f"- {line}" for line in _alarms_line(groups))]
    for title, head, rows in _sections(groups, baselines):
        parts += [f"## {title}", _markdown_table(head, rows)]
    return "\n\n".join(parts) + "\n"


def to_html(groups: Mapping[str, Figures], baselines: Mapping[str, Figures]) -> str:
    """The same as one page without any outside reference."""
    body = ["<h1>Evaluation</h1>"]
    body += [f"<p>{escape(line)}</p>" for line in _alarms_line(groups)]
    for name, figures in groups.items():
        body.append(_bars(name, figures.to_json()))
    for title, head, rows in _sections(groups, baselines):
        cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        lines = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        body.append(f"<h2>{escape(title)}</h2><table><tr>{cells}</tr>{lines}</table>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Evaluation</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _bars(name: str, figures: Mapping[str, Any]) -> str:
    """Recall, cause and kind of every kind as an inline SVG bar chart."""
    bars = []
    y = 0
    for kind, own in figures["per_kind"].items():
        for label, value in (
            ("recall", own["events"]["recall"]),
            ("cause", own["cause_top1"]),
            ("kind", own["kind_accuracy"]),
        ):
            width = 320 * (value or 0.0)
            bars.append(
                f'<text x="250" y="{y + 15}" text-anchor="end">{escape(kind)} {label}</text>'
                f'<rect x="260" y="{y + 3}" width="{width:.0f}" height="15"/>'
                f'<text x="{width + 266:.0f}" y="{y + 15}">{_text(value)}</text>'
            )
            y += _BAR
    if not bars:
        return ""
    return (
        f'<h2>{escape(name)}</h2><svg width="680" height="{y}" role="img" '
        f'font-size="12" fill="currentColor">{"".join(bars)}</svg>'
    )
