"""The web config file, as exporter-toolkit's users write it."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING

import aiohttp
import bcrypt
import pytest
from support.certificates import Authority
from support.selfmon import events

from fabricmon.errors import ConfigError
from fabricmon.web.webfile import WebFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from support.webstate import Served

    from fabricmon.api import Context

    Serve = Callable[..., AbstractAsyncContextManager[Served]]


def _hash(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def _touch(path: Path, ahead_s: int) -> None:
    """Make sure that the change is seen, however coarse the file system's clock is."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + ahead_s * 10**9))


def _basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": aiohttp.encode_basic_auth(user, password)}


async def test_basic_auth_guards_everything(serve: Serve, tmp_path: Path) -> None:
    """Without a right name and password every path is 401, and the page stays secret."""
    path = tmp_path / "web.yml"
    path.write_text(f"basic_auth_users:\n  ops: {_hash('s3cret')}\n")
    async with serve(config_file=path) as served:
        for where in ("/metrics", "/", "/-/healthy", "/-/reload", "/nowhere"):
            status, text, headers = await served.get(where)
            assert (status, text) == (401, "Unauthorized\n")
            assert headers["WWW-Authenticate"] == "Basic"
        for user, password in (("ops", "wrong"), ("nobody", "s3cret"), ("", "")):
            assert (await served.get("/-/healthy", headers=_basic(user, password)))[0] == 401
        right = _basic("ops", "s3cret")
        for _ in range(2):
            assert (await served.get("/-/healthy", headers=right))[0] == 200
        garbled = {"Authorization": "Basic %%%"}
        assert (await served.get("/-/healthy", headers=garbled))[0] == 401


async def test_a_changed_password_counts_at_the_next_request(serve: Serve, tmp_path: Path) -> None:
    """The file is followed: no restart, no reload."""
    path = tmp_path / "web.yml"
    path.write_text(f"basic_auth_users:\n  ops: {_hash('old')}\n")
    async with serve(config_file=path) as served:
        assert (await served.get("/-/healthy", headers=_basic("ops", "old")))[0] == 200
        path.write_text(f"basic_auth_users:\n  ops: {_hash('new')}\n")
        _touch(path, 2)
        assert (await served.get("/-/healthy", headers=_basic("ops", "old")))[0] == 401
        assert (await served.get("/-/healthy", headers=_basic("ops", "new")))[0] == 200


async def test_a_file_that_turns_bad_keeps_the_last_good_one(
    serve: Serve, context: Context, tmp_path: Path
) -> None:
    """A typing error does not open the door; it is reported once."""
    path = tmp_path / "web.yml"
    path.write_text(f"basic_auth_users:\n  ops: {_hash('old')}\n")
    async with serve(config_file=path) as served:
        path.write_text("basic_auth_user: {}\n")
        _touch(path, 2)
        for _ in range(3):
            assert (await served.get("/-/healthy"))[0] == 401
        assert (await served.get("/-/healthy", headers=_basic("ops", "old")))[0] == 200
        assert events(context, "config_rejected") == 1


async def test_headers_and_rate_limit_are_as_written(serve: Serve, tmp_path: Path) -> None:
    """A header of the file is on each answer; beyond the burst, 429."""
    path = tmp_path / "web.yml"
    path.write_text(
        "http_server_config:\n  headers:\n    Strict-Transport-Security: max-age=1\n"
        "rate_limit:\n  interval: 1h\n  burst: 2\n"
    )
    async with serve(config_file=path) as served:
        answers = [await served.get("/-/healthy") for _ in range(3)]
        assert [status for status, _, _ in answers] == [200, 200, 429]
        assert {h["Strict-Transport-Security"] for _, _, h in answers} == {"max-age=1"}


async def _fetch(port: int, trust: Path, client: tuple[Path, Path] | None = None) -> bytes:
    """The certificate the server showed, after a request that worked."""
    context = ssl.create_default_context(cafile=str(trust))
    if client is not None:
        context.load_cert_chain(*client)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        if not answer.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(answer[:60])
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown
    finally:
        writer.close()


async def test_certificates_rotate_without_a_restart(serve: Serve, tmp_path: Path) -> None:
    """A handshake after the files changed shows the new certificate."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    path = tmp_path / "web.yml"
    path.write_text("tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n")
    async with serve(config_file=path) as served:
        assert served.server.url.startswith("https://")
        before = await _fetch(served.server.port, authority.file)
        assert await _fetch(served.server.port, authority.file) == before
        authority.issue("server")
        _touch(certificate, 2)
        _touch(key, 2)
        assert await _fetch(served.server.port, authority.file) != before


async def test_mutual_tls_lets_in_only_those_the_authority_signed(
    serve: Serve, tmp_path: Path
) -> None:
    """No certificate, or one of another authority, ends in the handshake."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    authority.issue("server")
    path = tmp_path / "web.yml"
    path.write_text(
        "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
        "  client_auth_type: RequireAndVerifyClientCert\n"
        f"  client_ca_file: {authority.file.name}\n"
    )
    async with serve(config_file=path) as served:
        port = served.server.port
        await _fetch(port, authority.file, authority.issue("prometheus"))
        for client in (None, stranger.issue("intruder")):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await _fetch(port, authority.file, client)


async def test_allowed_names_narrow_who_comes_in(serve: Serve, tmp_path: Path) -> None:
    """With `client_allowed_sans`, a signed certificate also has to carry one of the names."""
    authority = Authority(tmp_path)
    authority.issue("server")
    path = tmp_path / "web.yml"
    text = (
        "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
        "  client_auth_type: RequireAndVerifyClientCert\n"
        f"  client_ca_file: {authority.file.name}\n  client_allowed_sans: [NAME]\n"
    )
    client = authority.issue("prometheus")  # carries localhost and 127.0.0.1
    for name, comes_in in (("localhost", True), ("127.0.0.1", True), ("other.example", False)):
        path.write_text(text.replace("NAME", name))
        async with serve(config_file=path) as served:
            if comes_in:
                await _fetch(served.server.port, authority.file, client)
                continue
            with pytest.raises(ConnectionError, match="403"):
                await _fetch(served.server.port, authority.file, client)


_ANYBODY = """\
tls_server_config:
  cert_file: a
  key_file: b
  client_auth_type: RequireAnyClientCert
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tls_server_config: {cert_file: a, key_file: b}", "TLS: "),
        ("basic_auth_users: {ops: plain}", "not a bcrypt hash"),
        ("http_server_config: {headers: {Server: x}}", "may not be set"),
        ("basic_auth: {}", "unknown key; allowed here: basic_auth_users"),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}",
            "needs a client_auth_type",
        ),
        (
            _ANYBODY,
            "lets anybody in",
        ),
    ],
)
def test_what_is_wrong_is_said_at_the_start(
    context: Context, tmp_path: Path, text: str, said: str
) -> None:
    """The error names the file and what is wrong in it."""
    path = tmp_path / "web.yml"
    path.write_text(text + "\n")
    with pytest.raises(ConfigError, match=said) as raised:
        WebFile(path, context).load()
    assert str(path) in str(raised.value)
    assert "plain" not in str(raised.value)


def test_an_empty_file_is_a_valid_one(context: Context, tmp_path: Path) -> None:
    """As with exporter-toolkit."""
    path = tmp_path / "web.yml"
    path.write_text("")
    file = WebFile(path, context)
    file.load()
    assert file.tls is None
