"""Lets go of what a device named once and never again.

Devices invent names: ports that come and go, interfaces numbered on and on. Each costs a row in
every table of its target, for good, unless somebody looks now and then which still speak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricmon.formats.gnmi.gnmi_record import Recorder
    from fabricmon.formats.lines.continuity import Continuity

_POLLS = 120
"""Polls with news between two looks; a port that is silent from one to the next is forgotten."""
_FEW = 64
"""So many silent ports, or an eighth of all, are not worth looking everything up anew."""


class Forgetting:
    """What was learnt of one target, and how long ago its ports spoke."""

    def __init__(
        self,
        recorder: Recorder,
        continuity: Continuity,
        forget: Callable[[], None],
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        """`forget` drops all else that holds numbers of series; `tidy` is called at each look."""
        self._recorder, self._continuity = recorder, continuity
        self._forget, self._tidy = forget, tidy
        self._polls = 0

    def look(self, news: int) -> int:
        """To call after a poll of so many values, all of them taken; how many ports were forgotten.

        A silent target forgets nothing: polls without news do not count.
        """
        self._polls += news > 0
        if self._polls < _POLLS:
            return 0
        self._polls = 0
        self._tidy()
        silent = self._continuity.silent()
        count = int(silent.sum())
        if count <= max(_FEW, len(silent) // 8):
            return 0
        self._recorder.keep(~silent)
        self._continuity.keep(~silent)
        self._forget()
        return count
