"""Targets kept elsewhere: what is read, and what is refused."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from pydantic import ValidationError

from fabricmon import app, yamlfile
from fabricmon.config import TargetConfig
from fabricmon.errors import ConfigError
from fabricmon.runtime import inventory
from fabricmon.runtime.inventory import Entry, entries

_DOCUMENT = yamlfile.loads("targets: []", file="fabricmon.yaml")


@contextmanager
def _server(answer: bytes, heard: list[bytes] | None = None) -> Iterator[str]:
    """Answers every request with these bytes, whatever they are; `heard` gets its headers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if heard is not None:
                heard.append(self.headers.as_bytes().replace(b"\n", b"\r\n"))
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/targets"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _entries(**written: object) -> list[Entry]:
    target = TargetConfig.model_validate({"collector": "snmp", **written})
    return list(entries(target, _DOCUMENT, ("targets", 0), fetch=True))


def test_a_file_made_for_prometheus_serves_as_it_is(tmp_path: Path) -> None:
    """Targets and our own labels are taken, foreign labels are ignored."""
    path = tmp_path / "switches.json"
    path.write_text(
        '[{"targets": ["leaf1:161"], "labels": {"name": "leaf1", "rack": "r1"}},'
        ' {"targets": ["a", "b"], "labels": {"credential": "ro"}}]'
    )
    expected = [
        Entry("leaf1", "leaf1:161"), Entry("a", "a", "ro"), Entry("b", "b", "ro"),
    ]  # fmt: skip
    assert expected == _entries(file_sd=[str(tmp_path / "*.json")])


def test_http_sd() -> None:
    """An answer of Prometheus' http_sd is a list of groups."""
    body = b'[{"targets": ["leaf1"]}]'
    with _server(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)) as url:
        assert [Entry("leaf1", "leaf1")] == _entries(http_sd=url)


def test_netbox(tmp_path: Path) -> None:
    """Its plug-in's labels are taken as `labels` says; it is shown a token, which never prints."""
    (tmp_path / "token").write_text("Token canary\n")
    device = {
        "targets": ["leaf1"],
        "labels": {
            "__meta_netbox_name": "leaf1",
            "__meta_netbox_primary_ip": "192.0.2.1",
            "__meta_netbox_platform_slug": "arista",
        },
    }
    bare = {"targets": ["leaf2.example"], "labels": {}}
    body = json.dumps([device, bare]).encode()
    heard: list[bytes] = []
    answer = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    written = {
        "http_sd_authorization": {"file": tmp_path / "token"},
        "labels": {
            "address": "__meta_netbox_primary_ip",
            "mapping": "__meta_netbox_platform_slug",
        },
    }
    with _server(answer, heard) as url:
        assert _entries(http_sd=url, **written) == [
            Entry("leaf1", "192.0.2.1", "", "arista"),
            Entry("leaf2.example", "leaf2.example"),
        ]
    assert b"Authorization: Token canary\r\n" in heard[0]
    (tmp_path / "token").write_text("wrong\nline")
    with _server(answer) as url, pytest.raises(ConfigError) as caught:
        _entries(http_sd=url, **written)
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"address": "x", "labels": {"name": "hostname"}},
        {"address": "x", "http_sd_authorization": {"env": "X"}},
        {"file_sd": ["x"], "labels": {"speed": "y"}},
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(wrong: dict[str, object]) -> None:
    """Labels and authorization belong to inventories, and only known things have labels."""
    with pytest.raises(ValidationError):
        _entries(**wrong)


@pytest.mark.parametrize(
    "answer",
    [
        b"this is no HTTP\r\n\r\n",
        b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:9/\r\n\r\n",
        b"HTTP/1.0 500 Oops\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 900\r\n\r\n[]",
        b"HTTP/1.0 200 OK\r\n\r\n{nonsense",
        b'HTTP/1.0 200 OK\r\n\r\n{"targets": []}',
    ],
)
def test_a_broken_server_is_one_clear_error(answer: bytes) -> None:
    """Garbage, redirects, errors and cut answers name the place they were asked from."""
    with _server(answer) as url, pytest.raises(ConfigError) as caught:
        _entries(http_sd=url)
    assert "127.0.0.1" in str(caught.value)


def test_one_name_from_two_inventories_is_refused(tmp_path: Path) -> None:
    """Two targets of one name would share their books and their series."""
    (tmp_path / "a.json").write_text('[{"targets": ["x"]}]')
    config = tmp_path / "fabricmon.yaml"
    config.write_text(
        "targets:\n"
        f"  - {{collector: gnmi_file, file_sd: [{tmp_path}/a.json]}}\n"
        f"  - {{collector: gnmi_file, file_sd: [{tmp_path}/a.json]}}\n"
    )
    loaded = app.load(config)
    with pytest.raises(ConfigError, match=r"targets\[1\]: target 'x' is given twice"):
        app.assemble(loaded, app.make_context(quiet=True))


def test_a_server_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then keeps each read alive; the whole answer has its own limit."""
    monkeypatch.setattr(inventory, "_TIMEOUT_S", 0.5)
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        channel, _ = listener.accept()
        with channel, suppress(OSError):
            channel.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not stop.wait(0.05):
                channel.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(ConfigError, match=r"no whole answer within 0\.5 s"):
            _entries(http_sd=url)
        stop.set()
        thread.join()
