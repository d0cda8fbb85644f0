"""Answers laid out as text, Markdown, HTML or JSON."""

from __future__ import annotations

import re
import textwrap
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fabricmon.report.answers import answers, clock, title, verdict_line
from fabricmon.report.svg import draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fabricmon.report.answers import Incident
    from fabricmon.report.gather import Plot

FORMATS = ("text", "md", "html", "json")
_WIDTH = 80
_MARK = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def render(
    incidents: Sequence[Incident], fmt: str = "text", plots: Mapping[str, Plot] | None = None
) -> str:
    """`incidents` (their JSON form, worst first) as one document that ends in a newline."""
    match fmt:
        case "text":
            return _text(incidents)
        case "md":
            return _markdown(incidents)
        case "html":
            return _html(incidents, plots or {})
        case "json":
            return _json(incidents)
    raise ValueError(f"{fmt!r} is not a format; there are {', '.join(FORMATS)}")


def _json(incidents: Sequence[Incident]) -> str:
    import orjson  # noqa: PLC0415 - the other formats do without

    return orjson.dumps(list(incidents), option=orjson.OPT_INDENT_2).decode() + "\n"


def _count(incidents: Sequence[Incident]) -> str:
    still = sum(one["state"] != "closed" for one in incidents)
    number = f"{len(incidents)} incident{'s' if len(incidents) != 1 else ''}"
    fabrics = ", ".join(sorted({str(one["fabric"]) for one in incidents}))
    first = min(one["started_at"] for one in incidents)
    last = max(one["updated_at"] for one in incidents)
    return f"{number}, {still} still open; {fabrics}; {clock(first)} to {clock(last)}"


def _state(incident: Incident) -> str:
    words = [incident["severity"], incident["state"]]
    words += ["under maintenance"] if incident["maintenance"] else []
    return f"{', '.join(words)}; id {incident['id']}"


# --- text ----------------------------------------------------------------------------------------


def _text(incidents: Sequence[Incident]) -> str:
    lines = textwrap.wrap(verdict_line(incidents), _WIDTH)
    if incidents:
        lines += ["", *textwrap.wrap(_count(incidents), _WIDTH)]
    for number, incident in enumerate(incidents, 1):
        lines += ["", *_hanging(f"{number}.", title(incident), 3), f"   {_state(incident)}"]
        asked = ""
        for question, answer in answers(incident):
            lines += _hanging("" if question == asked else f"   {question}", answer, 22)
            asked = question
    return "\n".join(lines) + "\n"


def _hanging(head: str, text: str, indent: int) -> list[str]:
    """`head`, then `text` in a column of its own."""
    wrapped = textwrap.wrap(text, _WIDTH - indent) or [""]
    first = head.ljust(indent) + wrapped[0]
    return [first.rstrip(), *(" " * indent + line for line in wrapped[1:])]


# --- Markdown ------------------------------------------------------------------------------------


def _markdown(incidents: Sequence[Incident]) -> str:
    lines = ["# fabricmon report", "", f"**{_marked(verdict_line(incidents))}**"]
    if incidents:
        lines += ["", _marked(_count(incidents))]
    for number, incident in enumerate(incidents, 1):
        lines += ["", f"## {number}. {_marked(title(incident))}", "", _marked(_state(incident)), ""]
        lines += [f"- {question} {_marked(answer)}" for question, answer in answers(incident)]
    return "\n".join(lines) + "\n"


def _marked(text: str) -> str:
    """Names that look like markup stay names."""
    return _MARK.sub(r"\\\1", text)


# --- HTML ----------------------------------------------------------------------------------------

_HEAD = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>fabricmon report</title>
<style>
{style}</style></head><body>
<h1>fabricmon report</h1>
"""


def _html(incidents: Sequence[Incident], plots: Mapping[str, Plot]) -> str:
    style = (files("fabricmon.report") / "report.css").read_text(encoding="utf-8")
    parts = [_HEAD.format(style=style)]
    parts.append(f'<p class="verdict">{escape(verdict_line(incidents))}</p>')
    if incidents:
        parts.append(f'<p class="dim">{escape(_count(incidents))}</p>')
    for number, incident in enumerate(incidents, 1):
        parts.append(f"<section><h2>{number}. {escape(title(incident))}</h2>")
        parts.append(f'<p class="dim">{escape(_state(incident))}</p>')
        parts.append(f"<dl>{''.join(_rows(incident))}</dl>")
        plot = plots.get(incident["id"])
        if plot is not None:
            parts.append(f"<figure>{draw(plot)}{_as_table(plot)}</figure>")
        parts.append("</section>")
    parts.append("</body></html>")
    return "\n".join(parts) + "\n"


def _rows(incident: Incident) -> Iterator[str]:
    """A question that has several answers is asked once."""
    asked = ""
    for question, answer in answers(incident):
        yield f"<dt>{'' if question == asked else escape(question)}</dt><dd>{escape(answer)}</dd>"
        asked = question


def _as_table(plot: Plot) -> str:
    """What the plot shows, for those who cannot see it."""
    rows: list[Any] = [
        f'<tr><td>{escape(port)}</td><td class="num">{max(values):.0%}</td>'
        f'<td class="num">{sum(values) / len(values):.0%}</td></tr>'
        for port, values in plot.lines
    ]
    head = "<tr><th>Port</th><th>Highest stall ratio</th><th>Mean</th></tr>"
    return f"<details><summary>As a table</summary><table>{head}{''.join(rows)}</table></details>"
