"""The rooms that a pipeline leads through, and what they remember together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fabricmon.model.ports import Saved

if TYPE_CHECKING:
    from fabricmon.api import Detector
    from fabricmon.diagnose import Diagnoser
    from fabricmon.model.ports import PortTable
    from fabricmon.model.window import Window
    from fabricmon.normalize import Normalizer
    from fabricmon.settings import Settings


@runtime_checkable
class Lasting(Protocol):
    """A detector that outlives its process, and the rows of ports that are gone."""

    def save(self) -> Saved:
        """What it remembers."""

    def restore(self, saved: Saved) -> None:
        """Go on from there. Raises `KeyError` or `ValueError` where it does not fit."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The pieces of one pipeline, built by the composition root."""

    table: PortTable
    normalizer: Normalizer
    window: Window
    detector: Detector
    diagnoser: Diagnoser
    detect: Settings
    """What the detector was made with."""
    diagnose: Settings
    """What the diagnoser was made with."""

    def inheriting(self, was: Stages) -> Stages:
        """Counters and history of `was`; its detector and diagnoser too, if made with the same."""
        return replace(
            self,
            table=was.table,
            normalizer=was.normalizer,
            window=was.window,
            detector=was.detector if was.detect == self.detect else self.detector,
            diagnoser=was.diagnoser if was.diagnose == self.diagnose else self.diagnoser,
        )

    def save(self) -> Saved:
        """What all rooms remember of the ports of the table; not the table itself."""
        saved = Saved()
        saved.add("normalizer", self.normalizer.save())
        saved.add("window", self.window.save())
        saved.add("diagnoser", self.diagnoser.save(self.table.ids))
        if isinstance(self.detector, Lasting):
            saved.add("detector", self.detector.save())
        return saved

    def recalling(self, saved: Saved) -> Stages:
        """Go on with the readings and the window that were saved, of the ports of the table.

        Raises `KeyError` or `ValueError` where they do not fit.
        """
        self.normalizer.restore(saved.part("normalizer"), self.table)
        return replace(self, window=self.window.restored(saved.part("window")))

    def relearn(self, saved: Saved) -> None:
        """Go on with what was saved of what is normal, and of what is open. Raises likewise."""
        self.diagnoser.restore(saved.part("diagnoser"), self.table)
        if isinstance(self.detector, Lasting):
            self.detector.restore(saved.part("detector"))
