"""Which targets there are: those kept elsewhere, and which of all a shard polls.

Elsewhere means `file_sd` files and `http_sd` answers, in Prometheus' own format:
a list of groups, `{"targets": ["leaf1:161"], "labels": {"name": "leaf1", "credential": "ro"}}`.
The labels `name` and `address` (for a group of one), `credential` and `mapping` are ours, or what
`labels:` says is; others are ignored, so that a list made for Prometheus serves as it is.
"""

from __future__ import annotations

import glob
import re
import socket
import threading
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from fabricmon import yamlfile
from fabricmon.errors import ConfigError
from fabricmon.settings import Settings, masked, validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fabricmon.config import LabelsConfig, TargetConfig
    from fabricmon.yamlfile import Document

_MAX_ANSWER = 16 << 20
_TIMEOUT_S = 10.0
"""For the whole answer of an inventory."""
_WRITTEN = re.compile(r"([0-9]{1,4})/([0-9]{1,4})", re.ASCII)
_MASK = (1 << 64) - 1


class Entry(NamedTuple):
    """One target as an inventory names it."""

    name: str
    address: str
    credential: str = ""
    mapping: str = ""


class _Group(Settings):
    targets: list[str]
    labels: dict[str, str] = {}


def entries(
    written: TargetConfig, document: Document, at: tuple[str | int, ...], *, fetch: bool
) -> Iterator[Entry]:
    """Every target that one item of `targets:` stands for. Raises `ConfigError`."""
    if written.address:
        yield Entry(written.name or written.address, written.address)
    for pattern in written.file_sd:
        files = sorted(glob.glob(pattern))  # noqa: PTH207 - an absolute pattern, as Prometheus takes
        if not files and not glob.has_magic(pattern):
            raise document.error(f"{pattern} does not exist", (*at, "file_sd"))
        for name in files:
            yield from _groups(_parsed(yamlfile.text_of(Path(name)), name), written.labels)
    if written.http_sd and fetch:
        text = _get(written, document, (*at, "http_sd"))
        yield from _groups(_parsed(text, written.http_sd), written.labels)


@lru_cache(maxsize=64)
def _parsed(text: str, name: str) -> Document:
    """Parsed once for as long as it says the same: thousands of targets are asked for often."""
    return yamlfile.loads(text, file=name)


def _groups(document: Document, labels: LabelsConfig) -> Iterator[Entry]:
    """The entries of an inventory; `labels` says what its labels are called."""
    data = document.data if document.data is not None else []
    if not isinstance(data, list):
        raise document.error("an inventory is a list of {targets, labels}")
    for i, item in enumerate(data):
        group = validate(_Group, document, item, (i,))
        said = {
            what: group.labels[label]
            for what, label in labels.model_dump().items()
            if label in group.labels
        }
        for what in said.keys() & {"name", "address"}:
            if len(group.targets) > 1:
                raise document.error(f"`{what}` fits a group of one target", (i, "labels"))
        for target in group.targets:
            yield Entry(**{"name": target, "address": target, **said})


def _get(written: TargetConfig, document: Document, at: tuple[str | int, ...]) -> str:
    url, secret = written.http_sd, written.http_sd_authorization
    shown = secret.reveal() if secret else ""
    if not shown.isprintable() or not shown.isascii():
        raise document.error("the authorization cannot be a header", at)
    if not url.startswith(("http://", "https://")):
        raise document.error("an address begins with http:// or https://", at)
    try:
        body = _body(url, {"Authorization": shown} if shown else {})
    except (OSError, ValueError, HTTPException) as error:
        raise document.error(f"{url}: {masked(str(error))}", at) from error
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError("not UTF-8", file=url) from error


def _body(url: str, headers: Mapping[str, str]) -> bytes:
    """What an inventory answers. Redirects are errors: they could send us anywhere.

    Raises `OSError`, `ValueError` or `HTTPException`.
    """
    place = urlsplit(url)
    make = HTTPSConnection if place.scheme == "https" else HTTPConnection
    with closing(make(place.hostname or "", place.port, timeout=_TIMEOUT_S)) as connection:
        connection.connect()
        # The connection's own timeout is for each read: a server that drips would hold us for ever.
        ran_out = threading.Event()
        alarm = threading.Timer(_TIMEOUT_S, _hang_up, (connection.sock, ran_out))
        alarm.start()
        try:
            path = place._replace(scheme="", netloc="", fragment="").geturl()
            return _answer(connection, path, headers)
        except (OSError, ValueError, HTTPException) as error:
            if ran_out.is_set():
                raise TimeoutError(f"no whole answer within {_TIMEOUT_S:g} s") from error
            raise
        finally:
            alarm.cancel()


def _hang_up(channel: socket.socket, ran_out: threading.Event) -> None:
    ran_out.set()
    with suppress(OSError):  # not the TLS socket's own, which would pull the session from under it
        socket.socket.shutdown(channel, socket.SHUT_RDWR)


def _answer(connection: HTTPConnection, path: str, headers: Mapping[str, str]) -> bytes:
    connection.request("GET", path or "/", headers={"Accept": "application/json", **headers})
    with connection.getresponse() as answer:
        if answer.status != HTTPStatus.OK:
            raise ValueError(f"HTTP {answer.status} {answer.reason}")
        body = answer.read(_MAX_ANSWER + 1)
        if len(body) > _MAX_ANSWER:
            raise ValueError(f"larger than {_MAX_ANSWER >> 20} MiB")
        if answer.length:
            raise ValueError(f"the answer ends {answer.length} bytes early")
        return body


# --- shards --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shard:
    """Daemon `index` (from 0) of `count`; who polls what is agreed without any talk."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `i/n`. Raises `ConfigError`."""
        found = _WRITTEN.fullmatch(text.strip())
        if found is None:
            raise ConfigError(f"{text!r} is not i/n, as 0/3 for the first of three", key="--shard")
        index, count = int(found[1]), int(found[2])
        if index >= count:
            last = f"the last of {count} is {count - 1}/{count}" if count else "there is none of 0"
            raise ConfigError(f"{text!r}: shards count from 0, so {last}", key="--shard")
        return cls(index, count)

    def owns(self, target: str) -> bool:
        """Whether this daemon polls the target of that name."""
        return shard_of(target, self.count) == self.index

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def shard_of(target: str, count: int) -> int:
    """The shard of a target, 0 to `count` - 1: the same on every machine and in every version.

    Jump consistent hashing (Lamping and Veach, 2014): with one shard more, only the targets that
    the new one takes move; the others keep their daemon, and with it their history.
    """
    key = int.from_bytes(blake2b(target.encode(), digest_size=8).digest(), "big")
    shard, jump = 0, 0
    while jump < count:
        shard = jump
        key = (key * 2_862_933_555_777_941_757 + 1) & _MASK
        jump = int((shard + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return shard
