"""Label text: escaped as `prometheus_client` does it, and safe whatever a device calls itself."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.model.ports import NO_PEER, PortRole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from fabricmon.model.ports import PortTable

MAX_LABEL = 128
"""Characters. Longer names are cut, and told apart by a hash."""
_HASH_LEN = 7


def label_text(value: str) -> str:
    """`value` as a label may carry it: no control characters, at most `MAX_LABEL` long.

    A name that had to be changed ends in `~` and a hash of what it was, so that two devices whose
    names differ only in what was taken away keep two series. Newlines stay: escaping covers them.
    """
    clean = value
    if not value.isascii() or not value.isprintable():
        clean = "".join(c for c in value if c == "\n" or unicodedata.category(c) not in _UNSAFE)
    if len(clean) <= MAX_LABEL and len(clean) == len(value):
        return value
    digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return f"{clean[: MAX_LABEL - _HASH_LEN]}~{digest}"


_UNSAFE = {"Cc", "Cs"}
"""Control characters, and surrogates, which UTF-8 cannot carry."""


def escape(value: str) -> str:
    """A label value between quotes."""
    return label_text(value).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def labels(**values: str) -> str:
    """`{a="…",b="…"}`, sorted by name as `prometheus_client` prints them."""
    return "{" + ",".join(f'{k}="{escape(v)}"' for k, v in sorted(values.items())) + "}"


def shard_of(name: str) -> int:
    """A stable number of a device's or target's name; `% n` gives its shard of n."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest, "big")


class PortLabels:
    """The label text of every port of one table, as Arrow strings (N), made once per port.

    Rows of a table never change their name, so growth only appends; another table begins anew.
    """

    def __init__(self, fabric: str) -> None:
        """Empty, for one fabric."""
        self.fabric = fabric
        self._fabric = f',fabric="{escape(fabric)}",'
        self._device: Any = None
        self._port: Any = None
        self._opened: Any = None
        self._closed: Any = None
        self._hash = np.zeros(0, np.uint32)
        self._info: tuple[int, int, Any] = (-1, -1, None)
        self._table: PortTable | None = None

    def grow(self, table: PortTable, n: int) -> None:
        """Know the first `n` ports of `table`."""
        import pyarrow as pa  # noqa: PLC0415 - 0.2 s that `check` must not pay

        if table is not self._table:
            self.__init__(self.fabric)  # type: ignore[misc] # the same as made anew
            self._table = table
        known = 0 if self._opened is None else len(self._opened)
        if known < n:
            ids = table.ids[known:n]
            device = [escape(one.device) for one in ids]
            port = [escape(one.port) for one in ids]
            opened = [
                f'{{device="{d}"{self._fabric}port="{p}"' for d, p in zip(device, port, strict=True)
            ]
            self._device = _append(pa, self._device, device)
            self._port = _append(pa, self._port, port)
            self._opened = _append(pa, self._opened, opened)
            self._closed = _append(pa, self._closed, (text + "} " for text in opened))
        new_nodes = table.nodes[len(self._hash) :]
        if new_nodes:
            hashes = np.fromiter(map(shard_of, new_nodes), np.uint32, len(new_nodes))
            self._hash = np.concatenate([self._hash, hashes])

    def port(self) -> Any:
        """Arrow string[N]: `{device="…",fabric="…",port="…"} `."""
        return self._closed

    def queue(self, queue: int) -> tuple[Any, str]:
        """Arrow string[N] and the tail that closes it: `…,queue="3"} `."""
        return self._opened, f',queue="{queue}"}} '

    def info(self, table: PortTable, n: int) -> Any:
        """Arrow string[N] with the facts of a port: peer, role, speed, technology."""
        if self._info[:2] != (table.version, n):
            self._info = (table.version, n, self._make_info(table, n))
        return self._info[2]

    def _make_info(self, table: PortTable, n: int) -> Any:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        self.grow(table, n)
        peer = table.peer[:n]
        row = pa.array(peer, mask=(peer == NO_PEER) | (peer >= n))
        speed = np.nan_to_num(table.speed_bps[:n]).astype(np.int64)
        roles = pa.array([role.name.lower() for role in PortRole])
        technology = pa.array(["ethernet", "infiniband"])
        return pc.binary_join_element_wise(
            pa.scalar('{device="'),
            self._device.slice(0, n),
            pa.scalar(f'"{self._fabric}peer_device="'),
            pc.fill_null(self._device.take(row), ""),
            pa.scalar('",peer_port="'),
            pc.fill_null(self._port.take(row), ""),
            pa.scalar('",port="'),
            self._port.slice(0, n),
            pa.scalar('",role="'),
            roles.take(pa.array(table.role[:n])),
            pa.scalar('",speed_bps="'),
            pc.cast(pa.array(speed, mask=speed <= 0), pa.string()).fill_null(""),
            pa.scalar('",technology="'),
            technology.take(pa.array(table.infiniband[:n].astype(np.uint8))),
            pa.scalar('"} '),
            "",
        )

    def in_shard(self, table: PortTable, n: int, shard: tuple[int, int]) -> NDArray[np.bool_]:
        """bool[N]: ports whose device belongs to shard (i, of n)."""
        inside: NDArray[np.bool_] = (self._hash % shard[1] == shard[0])[table.node[:n]]
        return inside


def _append(pa: Any, old: Any, new: Iterable[str]) -> Any:
    array = pa.array(list(new), pa.string())
    return array if old is None else pa.concat_arrays([old, array])
