"""Incidents for people: text of 80 columns, Markdown, HTML with inline plots, JSON.

    gather = Gatherer()                    # one per run; only for the plots
    drive(items, pipeline, gather.add)     # sees each snapshot
    print(render(gather.incidents(), "html", gather.plots()))

`render` takes incidents in their stable JSON form, so a running daemon's `/api/v1/incidents`, a
JSONL file and a replay are reported alike.
"""

from fabricmon.report.gather import Gatherer, Plot
from fabricmon.report.render import FORMATS, render

__all__ = ["FORMATS", "Gatherer", "Plot", "render"]
