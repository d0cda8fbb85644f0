"""Targets and credentials for SNMP tests."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fabricmon.api import Context, Credential, Target
from fabricmon.clock import SystemClock
from fabricmon.collectors.snmp import SnmpCollector
from fabricmon.collectors.snmp.config import SnmpConfig
from fabricmon.selfmon import Reporter
from fabricmon.settings import Secret

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def credential(folder: Path, secrets: dict[str, str], **options: str) -> Credential:
    """A credential whose secrets lie in files below `folder`, as in production."""
    name = "-".join((*options.values(), *secrets)) or "empty"
    kept = {}
    for key, value in secrets.items():
        path = folder / f"{name}-{key}"
        path.write_text(value, encoding="utf-8")
        kept[key] = Secret(file=path)
    return Credential(name, kept, options)


def target(address: str, how: Credential, name: str = "switch", mapping: str = "") -> Target:
    """A target in the fabric `test`."""
    return Target("test", name, address, how, mapping)


@contextlib.asynccontextmanager
async def collector(*targets: Target, **config: object) -> AsyncIterator[SnmpCollector]:
    """A started collector on the machine's own clock."""
    clock = SystemClock()
    made = SnmpCollector(SnmpConfig(**config), targets, Context(clock, Reporter(clock)))  # type: ignore[arg-type]
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
