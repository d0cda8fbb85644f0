"""What becomes a poll of all that a gNMI target told, whichever way it came: stream or file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.errors import PollError, Reason
from fabricmon.formats.lines.continuity import Continuity
from fabricmon.formats.lines.forgetting import Forgetting
from fabricmon.formats.lines.series import polls
from fabricmon.mappings.gnmi import GnmiPaths
from fabricmon.model.readings import Poll
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from fabricmon.formats.gnmi.gnmi_record import Recorder
    from fabricmon.selfmon import Reporter


def load_paths(mapping: str, folders: Sequence[Path]) -> GnmiPaths:
    """The paths of a mapping; of all where none is named. `folders` are users' own, and win.

    Raises `PollError` where there is no such mapping, `ConfigError` where a file is broken.
    """
    try:
        return GnmiPaths.load(mapping, folders)
    except KeyError as error:
        message = f"there is no gNMI mapping called {mapping!r}"
        raise PollError(Reason.NOT_FOUND, message) from error


class Harvest:
    """Takes from a target's recorder, poll by poll, and keeps what holds from one to the next."""

    def __init__(
        self,
        recorder: Recorder,
        paths: GnmiPaths,
        report: Reporter,
        forget: Callable[[], None],
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        """`recorder.device` is the target's name; `forget` and `tidy` are as in `Forgetting`."""
        self._recorder, self._paths, self._report = recorder, paths, report
        self._continuity = Continuity(recorder.table)
        self._forgetting = Forgetting(recorder, self._continuity, forget, tidy)
        self._lost: dict[Reason, int] = {}
        self.unmatched: Mapping[str, int] = {}
        """The paths no mapping knows, the most frequent, as of the last poll; for any thread."""

    def lose(self, reason: Reason, count: int = 1) -> None:
        """Count records or values that the next poll lacks."""
        if count:
            self._lost[reason] = self._lost.get(reason, 0) + count

    def break_off(self) -> None:
        """The session ended: a state that was told once holds no longer."""
        self._continuity.forget()

    def poll(self) -> Poll:
        """Everything that was packed since the last call."""
        recorder, table = self._recorder, self._recorder.table
        ended = recorder.samples.ended
        self._continuity.end(ended)
        chunk = self._continuity.apply(recorder.samples.take())
        table.end(ended, chunk)
        batches = tuple(polls(table.layout, chunk))
        self.lose(Reason.LIMIT, table.take_refused())
        if forgotten := self._forgetting.look(len(chunk)):
            self._report.emit(Event.PORTS_FORGOTTEN, recorder.device, ports=forgotten)
        self.unmatched = self._paths.most_unmatched()
        lost, self._lost = self._lost, {}
        return Poll(batches, lost)
