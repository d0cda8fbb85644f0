"""No secret ever leaves, not even in part: not in a log, a page, an error or an answer.

Every credential is a canary, and whoever is asked throws it back: agents in spoiled packets, HTTP
servers in their reason and body, a gNMI server in the details of its refusal.
"""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import grpc
import pytest
from support.daemon import fabricmon, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.wire

CANARIES = {
    "community": "Kolibri-17-schwirrt",
    "auth_key": "Distelfink-und-Zeisig",
    "priv_key": "Gimpel-sitzt-im-Baum",
    "password": "Nachtigall-singt-leise",
    "token": "Rotkehlchen-am-Fenster",
    "push": "Zaunkoenig-im-Winter",
    "inventory": "Token Goldammer-auf-dem-Feld",
}
LEAST = 6
"""So many characters of a secret in a row are a leak."""
PAGES = (
    "/", "/metrics", "/metrics?collect[]=all", "/api/v1/status", "/api/v1/targets",
    "/api/v1/incidents", "/api/v1/ports", "/api/v1/topology", "/api/v1/openapi.json", "/config",
    "/probe?target=v2c", "/probe?target=v3", "/probe?target=gnmi", "/probe?target=10.0.0.1",
    "/-/ready", "/-/healthy",
)  # fmt: skip


def spoiled(data: bytes) -> list[bytes]:
    """What a lying agent makes of a request: cut, twice, with changed octets, in another's name."""
    changed = bytearray(data)
    changed[-3:] = b"\xff\xff\xff"
    return [data[: len(data) // 2], data, data + data, bytes(changed), data[2:], b"\x30" + data]


@contextmanager
def agent() -> Iterator[int]:
    """A UDP port that throws requests back."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        port: int = own.getsockname()[1]

        def serve() -> None:
            while True:
                data, sender = own.recvfrom(65535)
                if data == b"stop":
                    return
                for reply in spoiled(data):
                    own.sendto(reply, sender)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield port
        finally:
            own.sendto(b"stop", ("127.0.0.1", port))
            thread.join(5)


class Mirror(BaseHTTPRequestHandler):
    """Refuses, and says in reason, header and body what it was sent."""

    def do_POST(self) -> None:
        """The refusal."""
        sent = self.headers.get("Authorization", "")
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps({"error": sent}).encode()
        self.send_response(401, f"no {sent}")
        self.send_header("WWW-Authenticate", sent)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815 - http.server's

    def log_message(self, *_arguments: object) -> None:
        """Silent."""


@contextmanager
def mirror() -> Iterator[int]:
    """The HTTP server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class _Refusing(grpc.GenericRpcHandler):
    def service(self, _details: object) -> grpc.RpcMethodHandler:
        """Abort every call with what the caller sent."""

        def refuse(_requests: object, context: grpc.ServicerContext) -> Iterator[bytes]:
            sent = " ".join(f"{key}={value}" for key, value in context.invocation_metadata())
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"bad {sent}")
            yield b""

        return grpc.stream_stream_rpc_method_handler(refuse)


@contextmanager
def refusing_gnmi() -> Iterator[int]:
    """The gRPC server."""
    server = grpc.server(ThreadPoolExecutor(4), handlers=[_Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def config(folder: Path, snmp: int, http: int, gnmi: int) -> str:
    """Every place of a config that takes a secret."""
    files = {}
    for name, canary in CANARIES.items():
        files[name] = folder / f"{name}.secret"
        files[name].write_text(f"{canary}\n")
    at = {name: f"{{file: {path}}}" for name, path in files.items()}
    return f"""
interval: 1s
log: {{level: debug, format: json}}
credentials:
  v2c: {{version: 2c, community: {at["community"]}}}
  v3: {{user: joe, auth: sha256, auth_key: {at["auth_key"]}, priv: aes,
       priv_key: {at["priv_key"]}}}
  login: {{username: joe, password: {at["password"]}}}
collectors: {{snmp: {{timeout: 0.2s, retries: 1}}}}
targets:
  - {{collector: snmp, address: "127.0.0.1:{snmp}", name: v2c, credential: v2c}}
  - {{collector: snmp, address: "localhost:{snmp}", name: slow, credential: v2c,
     options: {{engine: pysnmp}}}}
  - {{collector: snmp, address: "127.0.0.1:{snmp}", name: v3, credential: v3}}
  - {{collector: gnmi, address: "127.0.0.1:{gnmi}", name: gnmi, credential: login,
     options: {{insecure: true}}}}
exporters:
  prometheus: {{}}
  remote_write: {{url: "http://127.0.0.1:{http}/write", path: {folder}/queue,
                 bearer_token: {at["token"]}}}
  alertmanager: {{urls: ["http://127.0.0.1:{http}"], username: joe, password: {at["push"]}}}
"""


def leaks(text: str) -> list[str]:
    """Parts of canaries in `text`, plain or as base64 and hex would show them."""
    found = []
    for name, canary in CANARIES.items():
        parts = {canary[i : i + LEAST] for i in range(len(canary) - LEAST + 1)}
        packed = {canary.encode().hex(), b64encode(canary.encode()).decode().rstrip("=")}
        packed.add(b64encode(f"joe:{canary}".encode()).decode().rstrip("="))
        found += [f"{name}: {part!r}" for part in parts | packed if part in text]
    return found


def test_canaries_appear_nowhere(tmp_path: Path) -> None:
    """At the most talkative log level, while everybody throws the secrets back."""
    with ExitStack() as stack:
        ports = [stack.enter_context(part()) for part in (agent, mirror, refusing_gnmi)]
        text = config(tmp_path, *ports)
        daemon = stack.enter_context(running(tmp_path, text))
        daemon.wait(lambda: "gnmi" in daemon.log.read_text())
        shown = [daemon.get(page) for page in PAGES for _ in range(2)]
        daemon.wait(lambda: daemon.log.read_text().count("poll_failed") > 3)
        shown += [daemon.get(page) for page in PAGES]
        file = str(tmp_path / "fabricmon.yaml")
        for command in (
            ("check", file), ("targets", "--url", daemon.url), ("doctor", "-c", file),
            ("once", "-c", file, "-o", "json"), ("report", daemon.url),
        ):  # fmt: skip
            done = fabricmon(*command)
            shown += [done.stdout, done.stderr]
        daemon.stop()
        shown.append(daemon.log.read_text())
    assert [(leak, text[:200]) for text in shown for leak in leaks(text)] == []
    assert "UNAUTHENTICATED" in shown[-1].upper()


def test_an_inventory_that_throws_the_token_back(tmp_path: Path) -> None:
    """The error names the server and what it answered, without the token."""
    token = tmp_path / "token"
    token.write_text(CANARIES["inventory"])
    with mirror() as port:
        file = tmp_path / "fabricmon.yaml"
        file.write_text(
            "targets:\n"
            f"  - {{collector: snmp, http_sd: 'http://127.0.0.1:{port}/sd', credential: ro,\n"
            f"     http_sd_authorization: {{file: {token}}}}}\n"
            "credentials: {ro: {community: {env: COMMUNITY}}}\n"
        )
        done = fabricmon("once", "-c", str(file), COMMUNITY="public")
    assert "HTTP 401" in done.stderr
    assert leaks(done.stdout + done.stderr) == []
