"""The daemon's side of the datagram pump: start it, hand it batches, and let it die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.collectors.infiniband.native import worker
from fabricmon.errors import PollError, Reason
from fabricmon.formats.infiniband import mad

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

    from numpy.typing import NDArray

    from fabricmon.collectors.infiniband.config import InfinibandConfig

_TOP_TID = 1 << 31
_BRIEF_S = 0.1
_SIMULATED = "IBSIM_SOCKNAME"


@dataclass(frozen=True, slots=True)
class Requests:
    """A batch, in order of node.

    mads uint8[M,256], kinds uint8[M] (index into worker.KINDS), lids uint16[M], first uint32[n+1]
    """

    mads: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    lids: NDArray[np.uint16]
    first: NDArray[np.uint32]


@dataclass(frozen=True)
class Replies:
    """states uint8[M] (worker.ANSWERED …), mads uint8[M,256], ages float64[M] in seconds.

    Aligned with the requests. An age is the time between an answer and the end of its batch.
    """

    states: NDArray[np.uint8]
    ages: NDArray[np.float64]
    mads: NDArray[np.uint8]

    @cached_property
    def good(self) -> NDArray[np.bool_]:
        """bool[M]: answered, and not with an error status."""
        return (self.states == 0) & (mad.status(self.mads) == 0)


class Pump:
    """One worker process on one HCA port. Started at first use, restarted after it died."""

    def __init__(self, address: str, config: InfinibandConfig) -> None:
        """`address` is `mlx5_0`, `mlx5_0:1` or empty."""
        adapter, _, port = address.replace("/", ":").partition(":")
        self._args = [adapter, port or "0"]
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._errors = Path()
        self._tid = 1
        self._loaded: Requests | None = None
        """What the worker has: it need not be told twice."""

    async def exchange(
        self, requests: Requests, window: int = 0, *, brief: bool = False
    ) -> Replies:
        """Send and collect one batch. Raises `PollError` where the port cannot be used.

        `brief`: nobody is waited for long, or asked twice. Cancelling kills the worker: it may be
        deep in a wait.
        """
        timeout_s, retries = self._config.timeout, self._config.retries
        if brief:
            timeout_s, retries = min(timeout_s, _BRIEF_S), 0
        ways = (window or self._config.window, self._config.node_window, timeout_s, retries)
        try:
            return await asyncio.to_thread(self._exchange, requests, *ways)
        except asyncio.CancelledError:
            self.close(patience_s=0)
            raise

    def close(self, patience_s: float = 0.5) -> None:
        """End the worker, by force where it does not go by itself, and tidy up. Blocks so long."""
        process, self._process, self._loaded = self._process, None, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
            process.kill()
            process.wait()
            process.stdout.close()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._scratch = tempfile.TemporaryDirectory(prefix="fabricmon-ib-")
        environment = {**os.environ, **self._config.environment}
        command = [sys.executable, *self._program(environment), *self._args]
        self._errors = Path(self._scratch.name) / "stderr"
        try:
            with self._errors.open("wb") as errors:
                process = subprocess.Popen(  # noqa: S603 - our own file, the operator's prefix
                    [*self._config.command_prefix, *command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=self._scratch.name,
                    env=environment,
                )
        except OSError as error:
            raise PollError(Reason.NOT_FOUND, f"{command[0]}: {error.strerror}") from error
        self._process = process
        assert process.stdout is not None
        hello = process.stdout.readline()
        try:
            told = json.loads(hello)
        except ValueError:
            raise self._died("did not start") from None
        if told:
            self.close()
            raise PollError(Reason(told["reason"]), told["message"])
        return process

    def _program(self, environment: Mapping[str, str]) -> list[str]:
        """What runs: on a simulated subnet, unless its shim stands in for a port, that one's."""
        shim = self._config.command_prefix or "umad2sim" in environment.get("LD_PRELOAD", "")
        if _SIMULATED in environment and not shim:
            return ["-m", f"{__package__}.simulated"]
        return [worker.__file__]  # by path: it must not import the daemon's packages

    def _died(self, how: str) -> PollError:
        """What to tell of a worker that is gone, with its own last words."""
        words = ""
        with contextlib.suppress(OSError):
            words = self._errors.read_text("utf-8", "replace").strip().rpartition("\n")[2]
        self.close()
        return PollError(
            Reason.INTERNAL, f"the datagram worker {how}{': ' if words else ''}{words[:200]}"
        )

    def _exchange(
        self, requests: Requests, window: int, node_window: int, timeout_s: float, retries: int
    ) -> Replies:
        count = len(requests.mads)
        if self._tid + count >= _TOP_TID:
            self._tid = 1
        process = self._start()
        again = requests is self._loaded
        head = worker.HEADER.pack(
            count,
            len(requests.first) - 1,
            self._tid,
            window,
            node_window,
            round(timeout_s * 1000),
            retries,
            again,
        )
        self._tid += count
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(head)
            if not again:
                _load(process.stdin, requests)
            process.stdin.flush()
            self._loaded = requests
            states = process.stdout.read(count)
            ages = process.stdout.read(count * 8)
            mads = process.stdout.read(count * worker.MAD)
        except (OSError, ValueError) as error:
            raise self._died(f"died: {error}") from error
        if len(mads) < count * worker.MAD:
            raise self._died("died in the middle of a batch")
        return Replies(
            np.frombuffer(states, np.uint8),
            np.frombuffer(ages, np.float64),
            np.frombuffer(mads, np.uint8).reshape(-1, worker.MAD),
        )


def _load(pipe: IO[bytes], requests: Requests) -> None:
    """Hand a batch over."""
    pairs = (requests.kinds == 0).astype(np.uint8)  # subnet management has a queue pair of its own
    pipe.write(requests.kinds.astype(np.uint8).tobytes())
    pipe.write(requests.first.astype(np.uint32).tobytes())
    pipe.write(mad.umad_records(requests.mads, requests.lids, pairs).tobytes())


assert mad.UMAD_HEADER + mad.SIZE == worker.RECORD
