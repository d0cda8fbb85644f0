"""How good is it? Incidents against labels (`formats.interchange.Label`), by event.

watch      what the product said over a run, taken from its snapshots
match      which incident answers which label
figures    precision, recall, cause, kind, victims, delay, false alarms, with intervals
baselines  what a coin, an always-on alarm and one threshold would have scored
reliability  how far a confidence can be believed
render     the figures as Markdown and HTML with inline plots
"""

from fabricmon.evaluate.baselines import baselines
from fabricmon.evaluate.figures import Figures, score
from fabricmon.evaluate.reliability import Band, reliability
from fabricmon.evaluate.render import to_html, to_markdown
from fabricmon.evaluate.watch import Observed, Run, Watcher

__all__ = [
    "Band",
    "Figures",
    "Observed",
    "Run",
    "Watcher",
    "baselines",
    "reliability",
    "score",
    "to_html",
    "to_markdown",
]
