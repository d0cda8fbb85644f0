"""Collector of hosts: sysfs and ethtool of this machine, dumps of them, or an exporter's page.

The target's address says which: `/sys` (or wherever the host's is mounted, or a copy of it with
`ethtool -S` texts in a folder `ethtool` beside `class`), a file or folder of such texts or exporter
pages, or `http://host:9100/metrics`.
Options: `device` names the host, `lldp: true` asks `lldpctl` for cables.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from fabricmon.collectors.host import kernel
from fabricmon.errors import FormatError, PollError, Reason
from fabricmon.formats import cabling, promtext
from fabricmon.formats.base import BatchBuilder, PortReading
from fabricmon.formats.system import ethtool
from fabricmon.mappings.host import HostFields
from fabricmon.model.readings import Poll
from fabricmon.model.topology import Link, Node, PortId, Technology, Topology
from fabricmon.selfmon import Event
from fabricmon.settings import Settings, Size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fabricmon.api import Context, Target
    from fabricmon.formats.base import BadRecord
    from fabricmon.formats.system.sysfs import PortFiles


class HostConfig(Settings):
    """`collectors.host` of the config."""

    mappings: list[Path] = []
    """Folders with mapping files of your own; they win over the built-in ones."""
    names: Literal["auto", "hca", "netdev"] = "auto"
    """What a port is called: `mlx5_0/1`, or its network interface. `auto` takes the interface of
    Ethernet ports, since that is what LLDP and ethtool know, and the HCA's port of InfiniBand."""
    ethtool: bool = True
    """Also read driver statistics of this machine's interfaces."""
    max_page: Annotated[Size, Field(ge=1024)] = 64 << 20
    """The largest page or dump that is read."""


class HostCollector:
    """Reads hosts."""

    Config: ClassVar[type[Settings]] = HostConfig

    def __init__(self, config: HostConfig, targets: Sequence[Target], context: Context) -> None:
        """Store; nothing else."""
        self._config = config
        self._targets = tuple(targets)
        self._context = context
        self._hosts: dict[str, _Host] = {}
        self._http: Any = None

    async def start(self) -> None:
        """Open an HTTP client where a target needs one."""
        if any(_is_url(target.address) for target in self._targets):
            import aiohttp  # noqa: PLC0415 - heavy, and only pages need it

            timeout = aiohttp.ClientTimeout(total=30)
            self._http = aiohttp.ClientSession(timeout=timeout, auto_decompress=True)

    async def stop(self) -> None:
        """Close the HTTP client."""
        client, self._http = self._http, None
        if client is not None:
            await client.close()

    async def discover(self, target: Target) -> Topology | None:
        """The host itself, and its cables as `lldpctl` tells them (option `lldp`)."""
        host = self._host(target)
        topology = host.nodes()
        if (target.options or {}).get("lldp"):
            told = await _lldpctl(host.device)
            topology = (
                host.renamed(told) if topology is None else topology.merged(host.renamed(told))
            )
        return topology

    async def poll(self, target: Target) -> Poll:
        """What the host counts now."""
        host = self._host(target)
        if _is_url(target.address):
            return host.page(await self._fetch(target.address))
        return await asyncio.to_thread(host.files)

    def _host(self, target: Target) -> _Host:
        host = self._hosts.get(target.name)
        if host is None:
            host = self._hosts[target.name] = _Host(target, self._config, self._context)
        return host

    async def _fetch(self, url: str) -> str:
        import aiohttp  # noqa: PLC0415 - as in start

        if self._http is None:
            raise PollError(Reason.INTERNAL, "the collector was not started")
        try:
            async with self._http.get(url) as answer:
                if answer.status in (401, 403):
                    raise PollError(Reason.AUTHENTICATION, f"HTTP {answer.status}")
                if answer.status != 200:
                    raise PollError(Reason.UNEXPECTED, f"HTTP {answer.status}")
                body = await answer.content.read(self._config.max_page + 1)
                while len(body) <= self._config.max_page and not answer.content.at_eof():
                    body += await answer.content.read(self._config.max_page + 1 - len(body))
        except TimeoutError as error:
            raise PollError(Reason.TIMEOUT, "no complete page in time") from error
        except aiohttp.ClientError as error:
            text = str(error).replace(url, _shown(url)) or type(error).__name__
            raise PollError(Reason.UNREACHABLE, text) from None
        if len(body) > self._config.max_page:
            raise PollError(Reason.LIMIT, f"a page larger than {self._config.max_page} bytes")
        return body.decode("utf-8", "replace")


class _Host:
    """One target."""

    def __init__(self, target: Target, config: HostConfig, context: Context) -> None:
        self._target, self._config, self._context = target, config, context
        self.device = self._name()
        try:
            self.fields = HostFields.load(target.mapping, config.mappings)
        except KeyError as error:
            message = f"there is no host mapping called {target.mapping!r}"
            raise PollError(Reason.NOT_FOUND, message) from error
        self._batches = BatchBuilder(target.name)
        self._ethtool = kernel.Ethtool()
        self._infiniband: set[str] = set()
        self._lost: dict[Reason, int] = {}

    def _name(self) -> str:
        named = (self._target.options or {}).get("device")
        address = self._target.address
        if named:
            return str(named)
        if _is_url(address):
            return urlsplit(address).hostname or self._target.name
        return socket.gethostname() if address.rstrip("/") in ("/sys", "") else self._target.name

    def page(self, text: str) -> Poll:
        """Read an exporter's page. Raises `PollError` where nothing on it is a port's."""
        shown = _shown(self._target.address)
        self._take(promtext.ports(text.splitlines(), self._bad, shown))
        return self._done(f"{shown}: no metric of a port on the page")

    def files(self) -> Poll:
        """Read sysfs or dumps. Raises `PollError`."""
        folder = kernel.class_folder(self._target.address)
        if folder is not None:
            self._sysfs(folder)
        else:
            path = Path(self._target.address)
            if not path.exists():
                raise PollError(Reason.NOT_FOUND, f"{path}: no such file or folder")
            for file in sorted(path.iterdir()) if path.is_dir() else [path]:
                if file.is_file():
                    self._dump(file)
        return self._done(f"{self._target.address}: no counters there")

    def _sysfs(self, folder: Path) -> None:
        nets = {port: net for net, port in kernel.netdevs(folder).items()}
        texts = self._texts(Path(self._target.address) / "ethtool")
        live = self._config.ethtool and self._target.address.rstrip("/") == "/sys"
        for port in kernel.host_ports(folder):
            fields: dict[str, object] = dict(port.fields)
            net = nets.get(port.name)
            fields.update(texts.get(net or "", {}))
            if live and net is not None and not port.infiniband:
                try:
                    fields.update(self._ethtool.read(net))
                except OSError:
                    self._lost[Reason.NOT_FOUND] = self._lost.get(Reason.NOT_FOUND, 0) + 1
            if port.infiniband:
                self._infiniband.add(self.device)
            self._add(self.device, self._named(port, net), fields)

    def _named(self, port: PortFiles, net: str | None) -> str:
        by_net = self._config.names == "netdev" or (
            self._config.names == "auto" and not port.infiniband
        )
        return net if net is not None and by_net else port.name

    def _texts(self, folder: Path) -> dict[str, dict[str, object]]:
        """Driver statistics by interface, as texts named after it."""
        found: dict[str, dict[str, object]] = {}
        for file in sorted(folder.glob("*.txt")):
            with contextlib.suppress(OSError):
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
                for interface, fields in ethtool.interfaces(lines, self._bad, str(file)):
                    found[interface or file.stem] = fields
        return found

    def _dump(self, file: Path) -> None:
        try:
            if file.stat().st_size > self._config.max_page:
                raise PollError(Reason.LIMIT, f"{file}: larger than {self._config.max_page} bytes")
            text = file.read_text(encoding="utf-8", errors="replace")
        except PermissionError as error:
            raise PollError(Reason.PERMISSION, f"{file}: may not be read") from error
        head = text[:4096].encode()
        if ethtool.sniff(head):
            for interface, fields in ethtool.interfaces(text.splitlines(), self._bad, str(file)):
                host, port = ethtool.owner(str(file), interface)
                self._add(host or self.device, port, fields)
        elif promtext.sniff(head):
            self._take(promtext.ports(text.splitlines(), self._bad, str(file)))

    def _take(self, found: Iterator[tuple[str, str, dict[str, object]]]) -> None:
        for host, port, fields in found:
            self._add(host or self.device, port, fields)

    def _add(self, device: str, port: str, fields: Mapping[str, object]) -> None:
        named = (self._target.options or {}).get("device")
        values = self.fields.values(fields)
        if values:
            reading = PortReading(str(named or device), port, values)
            self._batches.add(reading, self._context.clock.now_ns())

    def _done(self, empty: str) -> Poll:
        batches = self._batches.take()
        if not batches:
            raise PollError(Reason.NO_DATA, empty)
        lost, self._lost = self._lost, {}
        return Poll(batches, lost)

    def _bad(self, record: BadRecord) -> None:
        self._lost[Reason.MALFORMED] = self._lost.get(Reason.MALFORMED, 0) + 1
        self._context.report.emit(
            Event.RECORD_SKIPPED, record.file, line=record.line, reason=record.reason
        )

    def nodes(self) -> Topology | None:
        """This host as a node, where it is known to be one machine."""
        if kernel.class_folder(self._target.address) is None and not _is_url(self._target.address):
            return None
        infiniband = self.device in self._infiniband
        technology = Technology.INFINIBAND if infiniband else Technology.ROCE
        return Topology((Node(self.device, "host", technology=technology),))

    def renamed(self, topology: Topology) -> Topology:
        """Cables of interfaces as cables of the ports that counters are known under."""
        folder = kernel.class_folder(self._target.address)
        names: dict[str, str] = {}
        if folder is not None:
            nets = {port: net for net, port in kernel.netdevs(folder).items()}
            for port in kernel.host_ports(folder):
                if (net := nets.get(port.name)) is not None:
                    names[net] = self._named(port, net)

        def renamed(end: PortId) -> PortId:
            own = end.device == self.device and end.port in names
            return PortId(end.device, names[end.port]) if own else end

        links = tuple(Link(renamed(k.a), renamed(k.b), k.speed_bps) for k in topology.links)
        return Topology(topology.nodes, links)


def _shown(url: str) -> str:
    """A URL without the name and password that may stand in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _is_url(address: str) -> bool:
    return address.startswith(("http://", "https://"))


async def _lldpctl(device: str) -> Topology:
    program = shutil.which("lldpctl", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if program is None:
        raise PollError(Reason.NOT_FOUND, "lldpctl is not installed")
    process = await asyncio.create_subprocess_exec(
        *(program, "-f", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    try:
        return cabling.lldpctl(output.decode("utf-8", "replace"), device=device, file="lldpctl")
    except FormatError as error:
        raise PollError(Reason.MALFORMED, str(error)) from error
