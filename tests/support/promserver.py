"""A real Prometheus on loopback, for the time of a `with` block."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from support import require
from support.servers import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PAUSE_S = 0.1


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PromServer:
    """Its HTTP API."""

    def __init__(self, port: int) -> None:
        """Know where it is."""
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **query: str) -> Any:
        """The JSON answer of an API path; errors of Prometheus are answers too."""
        url = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The vector an expression gives now."""
        answer = self.get("/api/v1/query", query=expression)
        assert answer["status"] == "success", answer
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def wait(self, what: Callable[[], Any], timeout_s: float = 30.0) -> Any:
        """Ask `what` until it answers with something, and give that."""
        for _ in range(round(timeout_s / _PAUSE_S)):
            found = what()
            if found:
                return found
            time.sleep(_PAUSE_S)
        return what()


@contextmanager
def prometheus(folder: Path, config: str, *flags: str) -> Iterator[PromServer]:
    """Start it on `config` (YAML) with its data under `folder`; end it after."""
    file = folder / "prometheus.yml"
    file.write_text(config)
    port = free_port()
    command = [
        require("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
        *flags,
    ]
    server = PromServer(port)
    with running(command, f"{server.url}/-/ready", folder / "prometheus.log"):
        yield server
