"""What the web server asks of the daemon, and all it may: the runtime fulfils it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fabricmon.api import Page, Target
    from fabricmon.model.maintenance import Maintenance
    from fabricmon.model.snapshot import Snapshot
    from fabricmon.model.window import Window


class State(Protocol):
    """The daemon as the web server sees it. Called on the event loop; every call is cheap."""

    def ready(self) -> bool:
        """Every fabric has been through its first full poll cycle."""

    def snapshots(self) -> Mapping[str, Snapshot]:
        """The latest snapshot of each fabric, by name. A snapshot never changes."""

    def windows(self) -> Mapping[str, Window]:
        """The recent past of each fabric, by name."""

    def targets(self) -> Sequence[Target]:
        """Every configured target: what `/sd/targets` lists and `/probe` may be asked for."""

    def maintenance(self) -> Maintenance:
        """The declared maintenance windows; the pipeline reads the same object."""

    def leaders(self) -> Mapping[str, str]:
        """In a cluster, the worker that judges each fabric, by fabric; empty where nobody does.

        A daemon of its own has none.
        """

    async def reload(self) -> None:
        """Validate the config, then apply it. Raises `ConfigError`; the old config then stays."""

    async def probe(self, target: str) -> Page:
        """Poll one configured target now and render what it gave.

        Raises `LookupError` for a name that is not configured, `PollError` when it gave nothing.
        """
