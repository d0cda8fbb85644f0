"""`fabricmon doctor`: why does it not work? Each check names what it found and how to mend it."""

from __future__ import annotations

import asyncio
import inspect
import os
import resource
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fabricmon.errors import ConfigError, Reason
from fabricmon.runtime.once import poll_once

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from fabricmon.api import Context, Target
    from fabricmon.config import Loaded
    from fabricmon.runtime.assembly import Assembly
    from fabricmon.runtime.once import Outcome

OK, WARN, FAIL = "ok", "warn", "fail"

_SERIES_PER_PORT = 10
_SERIES_COMFORTABLE = 1_000_000
_SPARE_DESCRIPTORS = 256
_RCVBUF_COMFORTABLE = 1 << 20
_DISK_SPARE = 1 << 30


@dataclass(frozen=True, slots=True)
class Result:
    """One finding of the doctor."""

    check: str
    level: str
    message: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """What the doctor looks at."""

    loaded: Loaded
    assembly: Assembly
    context: Context
    listen: tuple[str | None, int]

    @property
    def targets(self) -> list[tuple[str, Target]]:
        """(collector, target) of every target."""
        plans = self.assembly.fabrics.values()
        return [(g.kind, t) for plan in plans for g in plan.guards for t in g.targets]


async def examine(patient: Patient) -> list[Result]:
    """Every check, in an order in which an early failure explains the later ones."""
    results: list[Result] = []
    for check in _CHECKS:
        found = check(patient)
        results.extend(await found if inspect.isawaitable(found) else found)
    return results


def _secrets(patient: Patient) -> list[Result]:
    results = []
    for name, written in patient.loaded.config.credentials.items():
        for word, secret in written.secrets().items():
            try:
                empty = not secret.reveal()
            except ConfigError as error:
                fix = "create it, or let the user that runs fabricmon read it"
                results.append(Result("credentials", FAIL, f"{name}.{word}: {error}", fix))
                continue
            if empty:
                fix = "write the secret into it"
                results.append(Result("credentials", FAIL, f"{name}.{word} is empty", fix))
            elif secret.file is not None and secret.file.stat().st_mode & 0o004:
                fix = f"chmod o-r {secret.file}"
                message = f"{name}.{word}: {secret.file} can be read by every user"
                results.append(Result("credentials", WARN, message, fix))
    return results or [Result("credentials", OK, "every secret can be read")]


async def _names(patient: Patient) -> list[Result]:
    loop = asyncio.get_running_loop()

    async def resolve(target: Target) -> Result | None:
        host = _host_of(target.address)
        if host is None:
            return None
        try:
            await asyncio.wait_for(loop.getaddrinfo(host, None), 5.0)
        except (TimeoutError, OSError) as error:
            message = f"{target.name}: {host} does not resolve ({error or 'no answer'})"
            return Result("names", FAIL, message, "correct the address, or the name service")
        return None

    found = await asyncio.gather(
        *(resolve(t) for kind, t in patient.targets if kind != "simulated")
    )
    return [r for r in found if r] or [Result("names", OK, "every address resolves")]


def _host_of(address: str) -> str | None:
    """The host of `host[:port]`; None for paths, device names and addresses of other shapes."""
    if "/" in address and "://" not in address:
        return None
    host = urlsplit(address if "://" in address else f"//{address}").hostname
    return host if host and ("." in host or ":" in host or host == "localhost") else None


async def _answers(patient: Patient) -> list[Result]:
    outcomes = await poll_once(patient.assembly)
    results = [r for outcome in outcomes if (r := _judge(outcome)) is not None]
    results.extend(_slow(patient))
    results.extend(_cardinality(patient, outcomes))
    good = sum(outcome.poll is not None for outcome in outcomes)
    results.append(
        Result("targets", OK if good else WARN, f"{good} of {len(outcomes)} targets answered")
    )
    return results


_FIXES = {
    Reason.TIMEOUT: "check address, route, firewall, the agent's access list, and the community",
    Reason.REFUSED: "the service is off there: enable the agent, or correct the port",
    Reason.UNREACHABLE: "check the route and the firewall",
    Reason.AUTHENTICATION: "correct user, keys and protocols on either side",
    Reason.PERMISSION: "let the user that runs fabricmon do this (see docs/how-to/infiniband.md)",
    Reason.NOT_FOUND: "install what is missing, or correct the name",
    Reason.NO_DATA: "enable the tables on the device, or choose another mapping",
}


def _judge(outcome: Outcome) -> Result | None:
    if outcome.poll is None:
        fix = _FIXES.get(Reason(outcome.reason), "see the log at --log.level debug")
        message = f"{outcome.target.name} ({outcome.collector}): {outcome.message}"
        return Result(outcome.reason, FAIL, message, fix)
    if outcome.poll.lost:
        lost = ", ".join(f"{n} {reason.value}" for reason, n in outcome.poll.lost.items())
        message = f"{outcome.target.name}: part of the answer is lost ({lost})"
        return Result("partial", WARN, message, "fabricmon once --target shows what is missing")
    if not any(len(batch.ports) for batch in outcome.poll.batches):
        message = f"{outcome.target.name} answers, but names no port"
        return Result("no_data", WARN, message, _FIXES[Reason.NO_DATA])
    return None


def _slow(patient: Patient) -> Iterator[Result]:
    interval = patient.loaded.config.interval
    for plan in patient.assembly.fabrics.values():
        for guard in plan.guards:
            for status in guard.status():
                if status.up and status.last_duration_s > interval / 2:
                    message = (
                        f"{status.target} took {status.last_duration_s:.1f} s of {interval:g} s"
                    )
                    yield Result("pace", WARN, message, "lengthen `interval`")


def _umad(patient: Patient) -> list[Result]:
    if not any(kind == "infiniband" for kind, _ in patient.targets):
        return []
    devices = sorted(Path("/dev/infiniband").glob("umad*"))
    if not devices:
        fix = "load ib_umad (modprobe ib_umad), or read a folder of perfquery output"
        return [Result("umad", WARN, "there is no /dev/infiniband/umad*", fix)]
    closed = [d for d in devices if not os.access(d, os.R_OK | os.W_OK)]
    if closed:
        fix = "add the user to the group of the udev rule in deploy/systemd/infiniband.conf"
        return [Result("umad", FAIL, f"{closed[0]} may not be opened", fix)]
    return [Result("umad", OK, f"{len(devices)} umad device(s) can be opened")]


async def _clock(_patient: Patient) -> list[Result]:
    try:
        process = await asyncio.create_subprocess_exec(
            "timedatectl", "show", "--property=NTPSynchronized", "--value",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        answer, _ = await asyncio.wait_for(process.communicate(), 5.0)
    except (OSError, TimeoutError):
        answer = b""
    match answer.strip():
        case b"yes":
            return [Result("clock", OK, "the clock is synchronised")]
        case b"no":
            fix = "enable NTP: stamps of several devices are compared"
            return [Result("clock", WARN, "the clock is not synchronised", fix)]
    return [Result("clock", OK, "timedatectl cannot say whether the clock is synchronised")]


def _descriptors(patient: Patient) -> list[Result]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(patient.targets) + _SPARE_DESCRIPTORS
    if soft < wanted:
        message = f"{soft} file descriptors for {len(patient.targets)} targets"
        return [Result("descriptors", FAIL, message, f"ulimit -n {wanted}, or LimitNOFILE=")]
    return [Result("descriptors", OK, f"{soft} file descriptors")]


def _receive_buffer(patient: Patient) -> list[Result]:
    if not any(kind == "snmp" for kind, _ in patient.targets):
        return []
    path = Path("/proc/sys/net/core/rmem_max")
    size = int(path.read_text()) if path.exists() else _RCVBUF_COMFORTABLE
    if size < _RCVBUF_COMFORTABLE:
        fix = "sysctl -w net.core.rmem_max=4194304"
        message = f"UDP receive buffers are limited to {size} bytes; bursts of replies are lost"
        return [Result("udp-buffer", WARN, message, fix)]
    return [Result("udp-buffer", OK, f"UDP receive buffers may hold {size} bytes")]


def _cardinality(patient: Patient, outcomes: Iterable[Outcome]) -> list[Result]:
    polls = [outcome.poll for outcome in outcomes if outcome.poll is not None]
    ports = sum(len(batch.ports) for poll in polls for batch in poll.batches)
    limit = patient.loaded.config.limits.ports
    series = ports * _SERIES_PER_PORT
    if series > _SERIES_COMFORTABLE:
        fix = "scrape /metrics?shard=i/n from several Prometheus servers, or use remote_write"
        return [Result("cardinality", WARN, f"about {series:,} series a scrape", fix)]
    if ports >= limit:
        message = f"{ports} ports reach the limit of {limit}"
        return [Result("cardinality", FAIL, message, "raise limits.ports")]
    return [Result("cardinality", OK, f"about {series:,} series for {ports:,} ports")]


def _listen(patient: Patient) -> list[Result]:
    host, port = patient.listen
    with socket.socket(socket.AF_INET6 if host and ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host or "", port))
        except OSError as error:
            fix = "stop what listens there (a running fabricmon?), or set --web.listen-address"
            return [Result("listen", FAIL, f"port {port} cannot be listened on: {error}", fix)]
    return [Result("listen", OK, f"port {port} is free")]


def _folders(patient: Patient) -> list[Result]:
    config = patient.loaded.config
    written = {"record": config.record, "state": config.state}
    return [_folder(check, one.directory) for check, one in written.items() if one is not None]


def _folder(check: str, folder: Path) -> Result:
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        fix = f"mkdir -p {folder}, owned by the user that runs fabricmon"
        return Result(check, FAIL, f"{folder} is no folder that can be written", fix)
    free = shutil.disk_usage(folder).free
    if free < _DISK_SPARE:
        fix = "make room, or lower record.keep"
        return Result(check, WARN, f"{folder} has {free >> 20} MiB left", fix)
    return Result(check, OK, f"{folder} can be written, {free >> 30} GiB left")


async def _destinations(patient: Patient) -> list[Result]:
    results = []
    for kind, written in patient.loaded.config.exporters.items():
        for url in _urls(written):
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            try:
                _, writer = await asyncio.wait_for(
                    asyncio.open_connection(parts.hostname, port), 5.0
                )
                writer.close()
            except (OSError, TimeoutError) as error:
                message = f"{kind}: {parts.hostname}:{port} cannot be reached ({error})"
                fix = "correct the URL, or the firewall; data is queued or dropped until then"
                results.append(Result("exporters", FAIL, message, fix))
            else:
                results.append(Result("exporters", OK, f"{kind}: {parts.hostname}:{port} accepts"))
    return results


def _urls(written: object) -> Iterable[str]:
    values: Sequence[object] = list(written.values()) if isinstance(written, dict) else []
    for value in values:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and "://" in item:
                yield item


_CHECKS: tuple[Callable[[Patient], list[Result] | Awaitable[list[Result]]], ...] = (
    _secrets,
    _names,
    _umad,
    _descriptors,
    _receive_buffer,
    _answers,
    _clock,
    _listen,
    _folders,
    _destinations,
)
