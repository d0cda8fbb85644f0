"""A `State` for what is not a daemon: a replay or a simulation, shown as far as it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.errors import ConfigError
from fabricmon.model.maintenance import Maintenance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fabricmon.api import Page, Target
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.window import Window


class Shown:
    """Nothing is polled, so there is nothing to probe and nothing to reload."""

    def __init__(self, window: Window) -> None:
        """`window` is the pipeline's own."""
        self._latest: dict[str, Snapshot] = {}
        self._window = window
        self._maintenance = Maintenance()

    def see(self, snapshot: Snapshot) -> None:
        """Take one tick."""
        self._latest = {**self._latest, snapshot.fabric: snapshot}

    def ready(self) -> bool:
        """Something can be shown."""
        return bool(self._latest)

    def snapshots(self) -> Mapping[str, Snapshot]:
        """The tick it has come to."""
        return self._latest

    def windows(self) -> Mapping[str, Window]:
        """The pipeline's past, under the name of the fabric."""
        return dict.fromkeys(self._latest, self._window)

    def targets(self) -> Sequence[Target]:
        """None."""
        return ()

    def maintenance(self) -> Maintenance:
        """None declared."""
        return self._maintenance

    def leaders(self) -> Mapping[str, str]:
        """There is no cluster."""
        return {}

    async def reload(self) -> None:
        """There is no config that could be read again."""
        raise ConfigError("a replay has no config to reload")

    async def probe(self, target: str) -> Page:
        """Nothing is configured."""
        raise LookupError(target)
