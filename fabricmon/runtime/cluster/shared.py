"""The config that all workers share, kept in the state bucket.

What is about one worker stays its own: `cluster`, `web`, `log` and `record`. The rest is the
cluster's. A file that the cluster has not seen, or that changed while its worker ran, is news and
becomes everybody's; any other is old, and the cluster's config is used. So files may be rolled out
worker by worker, or changed on one and reloaded there.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import orjson

from fabricmon.runtime.cluster.follower import BrokerError
from fabricmon.yamlfile import Document

if TYPE_CHECKING:
    from fabricmon.runtime.cluster.broker import Broker

OWN = ("cluster", "web", "log", "record")
_KEY = "config"
_MOST_SEEN = 64
_NOTHING: dict[str, Any] = {"seen": [], "digest": "", "data": {}}


class SharedConfig:
    """The cluster's config as this worker knows it."""

    def __init__(self, broker: Broker) -> None:
        """Nothing known yet."""
        self._broker = broker
        self._known = _NOTHING
        """What the bucket holds: the config, its digest, and digests of all that were told."""
        self._file: dict[str, Any] = {}
        self._mark = self._applied = ""
        """Digests of this worker's file when it was last read, and of what it runs by."""
        self._news = False

    def merged(self, document: Document) -> Document:
        """A file that was just read, with the cluster's shared part unless the file is news."""
        data = document.data if isinstance(document.data, dict) else {}
        shared, own = _split(data)
        mark = _digest(shared)
        self._news |= bool(self._mark) and mark != self._mark
        self._file, self._mark = shared, mark
        if not self._known["digest"] or self._is_news() or mark == self._known["digest"]:
            self._applied = mark
            return document
        self._applied = self._known["digest"]
        return Document(f"{document.file} (the cluster's)", {**self._known["data"], **own}, {})

    def _is_news(self) -> bool:
        return self._news or self._mark not in self._known["seen"]

    async def sync(self) -> bool:
        """Tell the cluster if the file is news, else look. True: it is not what runs here.

        Raises `BrokerError`.
        """
        broker = self._broker
        kept = await broker.get(broker.state, _KEY)
        self._known = orjson.loads(kept.value) if kept else _NOTHING
        if self._is_news() and self._mark:
            seen = [*(mark for mark in self._known["seen"] if mark != self._mark), self._mark]
            told = {"seen": seen[-_MOST_SEEN:], "digest": self._mark, "data": self._file}
            value = orjson.dumps(told, option=orjson.OPT_NON_STR_KEYS)
            if len(value) > broker.most_bytes:
                raise BrokerError(f"a config of {len(value)} bytes: keep targets in `file_sd`")
            if await broker.swap(broker.state, _KEY, value, kept.revision if kept else 0) is None:
                return False  # somebody was faster; the next look shows whose it is
            self._known, self._news = told, False
        return bool(self._known["digest"] != self._applied)


def _split(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is the cluster's, and what is the worker's own."""
    own = {key: data[key] for key in OWN if key in data}
    return {key: value for key, value in data.items() if key not in OWN}, own


def _digest(shared: dict[str, Any]) -> str:
    text = orjson.dumps(shared, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return blake2b(text, digest_size=8).hexdigest()
