"""Reading through `ibnetdiscover` and `perfquery`: one process for each switch, or two.

Slower than datagrams of our own by two orders of magnitude, but needs nothing but the tools. Each
program has a deadline, runs in a scratch directory, and dies with us.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabricmon.errors import PollError, Reason
from fabricmon.formats.infiniband.tools import ibnetdiscover, perfquery
from fabricmon.selfmon import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fabricmon.api import Context
    from fabricmon.collectors.infiniband.config import InfinibandConfig
    from fabricmon.formats.base import BadRecord
    from fabricmon.formats.infiniband.ibfabric import IbFabric, IbNode
    from fabricmon.formats.infiniband.ibtext import PortCounts

_MAX_OUTPUT = 256 << 20
_WAIT_IN_EXTENDED = 1 << 1
"""Bit of CapMask2: the extended attribute carries errors and transmit-wait in 64 bits."""


@dataclass(slots=True)
class Reading:
    """What one round of reading gave: blocks, and ports lost by reason."""

    blocks: list[PortCounts] = field(default_factory=list)
    lost: dict[Reason, int] = field(default_factory=dict)
    first_error: PollError | None = None

    def lose(self, error: PollError, ports: int) -> None:
        """Count ports that were not read; the first reason is kept for the message."""
        self.lost[error.reason] = self.lost.get(error.reason, 0) + ports
        self.first_error = self.first_error or error


class Tools:
    """The two programs, for one local HCA port."""

    def __init__(self, target: str, address: str, config: InfinibandConfig, ctx: Context) -> None:
        """`address` is `mlx5_0`, `mlx5_0:1`, or empty for the first active port."""
        self._target, self._config, self._report = target, config, ctx.report
        adapter, _, port = address.replace("/", ":").partition(":")
        self._port_args = ["-C", adapter] if adapter else []
        self._port_args += ["-P", port] if port else []
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Remove the scratch directory."""
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    async def discover(self) -> IbFabric:
        """One sweep. Raises `PollError` where the tool is missing or found nothing."""
        out, err, code = await self._run("ibnetdiscover", [])
        fabric = ibnetdiscover.read(out.splitlines(), self._bad, "ibnetdiscover")
        fabric.unreachable += ibnetdiscover.silent_paths(err.splitlines())
        if not fabric.nodes:
            why = ibnetdiscover.failure(err) or err.strip()[-300:] or f"exit status {code}"
            raise PollError(Reason.UNREACHABLE, f"ibnetdiscover found nothing: {why}")
        return fabric

    async def read(self, asked: Sequence[tuple[IbNode, list[int]]]) -> Reading:
        """Counters of these ports. What fails costs only its own node."""
        reading = Reading()
        limit = asyncio.Semaphore(self._config.parallel)

        async def one(node: IbNode, numbers: list[int]) -> None:
            async with limit:
                await self._read_node(node, numbers, reading)

        async with asyncio.TaskGroup() as group:
            for node, numbers in asked:
                group.create_task(one(node, numbers))
        return reading

    async def _read_node(self, node: IbNode, numbers: list[int], into: Reading) -> None:
        by_lid: dict[int, list[int]] = {}
        for number in numbers:
            by_lid.setdefault(node.lid_of(number), []).append(number)
        for lid, ports in by_lid.items():
            try:
                blocks = await self._query(["-x"], lid, ports)
                mask = next((b.cap_mask2 for b in blocks if b.cap_mask2 is not None), None)
                if not (mask or 0) & _WAIT_IN_EXTENDED:
                    blocks += await self._query([], lid, ports)
            except PollError as error:
                into.lose(error, len(ports))
                continue
            seen = set()
            for block in blocks:
                block.guid, block.lid = node.guid, lid
                seen.add(block.port)
            into.blocks += blocks
            if len(seen) < len(ports):
                missing = len(ports) - len(seen)
                text = f"perfquery of LID {lid} left out {missing} of {len(ports)} ports"
                into.lose(PollError(Reason.TRUNCATED, text), missing)

    async def _query(self, mode: list[str], lid: int, ports: list[int]) -> list[PortCounts]:
        wanted = ",".join(map(str, ports)) if len(ports) < 3 else f"{ports[0]}-{ports[-1]}"
        out, err, code = await self._run("perfquery", [*mode, str(lid), wanted])
        blocks = list(perfquery.read(out.splitlines(), self._bad, f"perfquery of LID {lid}"))
        if not blocks:
            why = perfquery.failure(out + "\n" + err) or err.strip()[-200:] or f"exit status {code}"
            raise PollError(Reason.TIMEOUT, f"perfquery of LID {lid}: {why}")
        return blocks

    def _bad(self, record: BadRecord) -> None:
        self._report.emit(Event.RECORD_SKIPPED, self._target, error=str(record))

    async def _run(self, program: str, args: list[str]) -> tuple[str, str, int]:
        command = [*self._config.command_prefix, _find(program), *self._port_args, *args]
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="fabricmon-ib-")
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._scratch.name,
                env={**os.environ, **self._config.environment, "LC_ALL": "C"},
                start_new_session=True,
                limit=_MAX_OUTPUT,
            )
        except OSError as error:
            raise PollError(Reason.NOT_FOUND, f"{command[0]}: {error.strerror}") from error
        try:
            async with asyncio.timeout(self._config.tool_timeout):
                out, err = await process.communicate()
        except TimeoutError:
            limit = f"{self._config.tool_timeout:g} s"
            raise PollError(Reason.TIMEOUT, f"{program} did not end within {limit}") from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return out.decode("latin-1"), err.decode("latin-1"), process.returncode or 0


def _find(program: str) -> str:
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise PollError(Reason.NOT_FOUND, f"{program} is not installed (package infiniband-diags)")
    return found
