"""Reads a Linux host's own NICs: sysfs files, and driver statistics by the ethtool ioctl."""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from fabricmon.formats.system import sysfs

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIOCETHTOOL = 0x8946
_GDRVINFO, _GSTRINGS, _GSTATS = 0x03, 0x1B, 0x1D
_STRING_SET_STATS = 1
_NAME_BYTES = 32
_MAX_STATS = 65_536
_N_STATS_AT = 4 + 5 * 32 + 12 + 4  # in struct ethtool_drvinfo, behind its texts and n_priv_flags
_FIELDS = ("counters", "hw_counters")


def class_folder(address: str) -> Path | None:
    """The `class/infiniband` folder behind an address (`/sys`, `/host/sys`, or itself)."""
    root = Path(address)
    for folder in (root / "class" / "infiniband", root):
        with contextlib.suppress(OSError):
            if any((hca / "ports").is_dir() for hca in folder.iterdir()):
                return folder
    return None


def port_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Path and text of every file of every port; those that cannot be read are left out."""
    for hca in _listed(folder):
        for port in _listed(folder / hca / "ports"):
            base = folder / hca / "ports" / port
            names = [(base / name, name) for name in ("state", "rate", "link_layer")]
            for group in _FIELDS:
                names += [
                    (base / group / name, f"{group}/{name}") for name in _listed(base / group)
                ]
            for path, name in names:
                text = _text(path)
                if text is not None:
                    yield f"{hca}/ports/{port}/{name}", text


def netdevs(folder: Path) -> dict[str, str]:
    """Network interface -> port name (`mlx5_0/1`) of every HCA that has one."""
    found = {}
    for hca in _listed(folder):
        ports = _listed(folder / hca / "ports")
        nets = _listed(folder / hca / "device" / "net")
        for net in nets:
            at = _text(folder / hca / "device" / "net" / net / "dev_port")
            index = int(at) + 1 if at and at.strip().isdigit() and len(nets) > 1 else 1
            if str(index) in ports:
                found[net] = f"{hca}/{index}"
    return found


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names only, thousands of times a poll
    except OSError:
        return []


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:  # counters that firmware does not have fail to be read
        return None


class Ethtool:
    """Driver statistics of interfaces, as `ethtool -S` shows them, without starting it."""

    def __init__(self) -> None:
        """Nothing is opened yet."""
        self._names: dict[str, list[str]] = {}

    def read(self, interface: str) -> dict[str, object]:
        """Fields (`ethtool/NAME`) of an interface. Raises `OSError` where it has none."""
        import fcntl  # noqa: PLC0415 - Linux only, and this module is imported everywhere

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:

            def ask(command: array.array[int]) -> None:
                address, _ = command.buffer_info()
                request = struct.pack("16sP16x", interface.encode()[:15], address)
                fcntl.ioctl(sock.fileno(), _SIOCETHTOOL, request)

            info = array.array("B", struct.pack("=I", _GDRVINFO) + bytes(256))
            ask(info)
            count = struct.unpack_from("=I", info.tobytes(), _N_STATS_AT)[0]
            if not 0 < count <= _MAX_STATS:
                return {}
            names = self._names.get(interface, [])
            if len(names) != count:
                names = self._names[interface] = self._strings(ask, count)
            stats = array.array("B", struct.pack("=II", _GSTATS, count) + bytes(8 * count))
            ask(stats)
            values = struct.unpack_from(f"={count}Q", stats.tobytes(), 8)
        return {f"ethtool/{name}": value for name, value in zip(names, values, strict=True)}

    @staticmethod
    def _strings(ask: object, count: int) -> list[str]:
        head = struct.pack("=III", _GSTRINGS, _STRING_SET_STATS, count)
        strings = array.array("B", head + bytes(_NAME_BYTES * count))
        ask(strings)  # type: ignore[operator] # a local function
        text = strings.tobytes()[12:]
        return [
            text[i * _NAME_BYTES : (i + 1) * _NAME_BYTES]
            .split(b"\0", 1)[0]
            .decode("ascii", "replace")
            for i in range(count)
        ]


def host_ports(folder: Path) -> list[sysfs.PortFiles]:
    """Every port of the host, with what its files say."""
    return sysfs.ports(port_files(folder))
