"""The web config file is the one that exporter-toolkit reads."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import bcrypt
import pytest
from support import require
from support.certificates import Authority

from fabricmon.web.webfile import WebFile

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context

pytestmark = pytest.mark.wire

_FULL = """\
tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: test-authority.pem
  min_version: TLS12
  max_version: TLS13
  cipher_suites:
    - TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    - TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
    - TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
  prefer_server_cipher_suites: true
  curve_preferences: [CurveP256, X25519]
http_server_config:
  http2: true
  headers:
    Strict-Transport-Security: max-age=31536000
    X-Frame-Options: deny
basic_auth_users:
  prometheus: {hash}
"""


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        (_FULL, True),
        ("basic_auth_users: {}\n", True),
        ("tls_server_config: {cert_file: missing, key_file: missing}\n", False),
        ("http_server_config: {headers: {Server: x}}\n", False),
        ("nothing_known: 1\n", False),
    ],
)
def test_both_accept_and_refuse_the_same_files(
    context: Context, tmp_path: Path, text: str, *, accepted: bool
) -> None:
    """What `promtool check web-config` says of a file, the server does with it."""
    Authority(tmp_path).issue("server")
    path = tmp_path / "web.yml"
    path.write_text(text.replace("{hash}", bcrypt.hashpw(b"x", bcrypt.gensalt(4)).decode()))
    done = subprocess.run(
        [require("promtool"), "check", "web-config", path], capture_output=True, check=False
    )
    assert (done.returncode == 0) is accepted, done.stderr
    try:
        WebFile(path, context).load()
        loaded = True
    except ValueError:
        raise
    except Exception:  # noqa: BLE001 - the test asks only whether it is refused
        loaded = False
    assert loaded is accepted
