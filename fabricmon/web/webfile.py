"""The web config file that node_exporter and its kin share: TLS, passwords, headers, rate limit.

The file is looked at again for every request and every TLS handshake, and read when it (or a
certificate it names) has changed, so that certificates and passwords rotate without a restart. A
file that turns bad is reported, and what was last good stays.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from fabricmon import yamlfile
from fabricmon.errors import ConfigError
from fabricmon.selfmon import Event
from fabricmon.settings import Settings, parse_duration, validate

if TYPE_CHECKING:
    from fabricmon.api import Context

_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_HEADERS = {
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
}
_VERIFY = {
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
Version = Literal["TLS10", "TLS11", "TLS12", "TLS13"]


class TlsServerConfig(Settings):
    """`tls_server_config`."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_auth_type: Literal[
        "NoClientCert",
        "RequestClientCert",
        "RequireAnyClientCert",
        "VerifyClientCertIfGiven",
        "RequireAndVerifyClientCert",
        "",
    ] = "NoClientCert"
    client_allowed_sans: list[str] = []
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: list[str] = []
    prefer_server_cipher_suites: bool = True
    curve_preferences: list[str] = []

    @model_validator(mode="after")
    def _clients_are_verified_or_not_asked(self) -> TlsServerConfig:
        verifies = self.client_auth_type in _VERIFY
        if self.client_auth_type == "RequireAnyClientCert":
            raise ValueError("RequireAnyClientCert lets anybody in; use RequireAndVerifyClientCert")
        if verifies and self.client_ca_file is None:
            raise ValueError(f"{self.client_auth_type} needs client_ca_file")
        if self.client_ca_file is not None and not verifies:
            raise ValueError("client_ca_file needs a client_auth_type that verifies")
        return self


class HttpServerConfig(Settings):
    """`http_server_config`. HTTP/1.1 is spoken whatever `http2` says."""

    http2: bool = True
    headers: dict[str, str] = {}

    @model_validator(mode="after")
    def _known_headers(self) -> HttpServerConfig:
        for name in self.headers:
            if name not in _HEADERS:
                raise ValueError(f"header {name!r} may not be set; allowed: {sorted(_HEADERS)}")
        return self


class RateLimitConfig(Settings):
    """`rate_limit`: one request per `interval` on average, `burst` at once; 0 turns it off."""

    interval: Annotated[float, Field(ge=0)] | str = 0.0
    burst: Annotated[int, Field(ge=0)] = 0

    def interval_s(self) -> float:
        """Seconds."""
        return parse_duration(self.interval)


class WebFileConfig(Settings):
    """The whole file."""

    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig = HttpServerConfig()
    basic_auth_users: dict[str, str] = {}
    rate_limit: RateLimitConfig = RateLimitConfig()

    @model_validator(mode="after")
    def _hashes(self) -> WebFileConfig:
        for user, hashed in self.basic_auth_users.items():
            if not hashed.startswith(("$2a$", "$2b$", "$2y$")):
                raise ValueError(f"the password of {user!r} is not a bcrypt hash")
        return self


class WebFile:
    """The file, followed."""

    def __init__(self, path: Path | None, context: Context) -> None:
        """`path` None is an empty file that never changes. Nothing is read yet."""
        self._path = path
        self._context = context
        self._stamp: tuple[float, ...] = ()
        self.config = WebFileConfig()
        self.tls: ssl.SSLContext | None = None

    def load(self) -> None:
        """Read it now. Raises `ConfigError`, naming file and line."""
        if self._path is None:
            return
        document = yamlfile.load(self._path)
        if document.data is None:
            document = yamlfile.Document(document.file, {}, document.lines)
        config = validate(WebFileConfig, document)
        tls = None
        if config.tls_server_config is not None:
            try:
                tls = _tls(config.tls_server_config, self._path.parent)
            except (OSError, ssl.SSLError, ValueError) as error:
                raise document.error(f"TLS: {error}", ("tls_server_config",)) from error
            tls.sni_callback = self._swap  # called in each handshake, with or without SNI
        self.config, self.tls = config, tls
        self._stamp = self._changed_at()

    def refresh(self) -> None:
        """Read it again if it changed; a bad one is reported, and the last good one stays."""
        stamp = self._changed_at()
        if stamp == self._stamp:
            return
        try:
            self.load()
        except ConfigError as error:
            self._stamp = stamp
            self._context.report.emit(Event.CONFIG_REJECTED, str(self._path), error=str(error))

    def _swap(self, connection: ssl.SSLObject, _name: str | None, _old: ssl.SSLContext) -> None:
        self.refresh()
        if self.tls is not None:
            connection.context = self.tls

    def _changed_at(self) -> tuple[float, ...]:
        if self._path is None:
            return ()
        files = [self._path]
        tls = self.config.tls_server_config
        if tls is not None:
            named = (tls.cert_file, tls.key_file, tls.client_ca_file)
            files += [self._path.parent / file for file in named if file is not None]
        return tuple(_mtime(file) for file in files)


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1.0


def _tls(config: TlsServerConfig, base: Path) -> ssl.SSLContext:
    """Relative paths are relative to the file, as in exporter-toolkit."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.min_version]
    context.maximum_version = _VERSIONS[config.max_version]
    context.load_cert_chain(base / config.cert_file, base / config.key_file)
    if config.client_ca_file is not None:
        context.load_verify_locations(base / config.client_ca_file)
        context.verify_mode = _VERIFY[config.client_auth_type]
    if config.cipher_suites:
        context.set_ciphers(":".join(_openssl_name(name) for name in config.cipher_suites))
    return context


def _openssl_name(name: str) -> str:
    """Go's `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` as OpenSSL's `ECDHE-RSA-AES128-GCM-SHA256`."""
    short = name.removeprefix("TLS_").replace("_WITH_", "_")
    for bits in ("128", "256"):
        short = short.replace(f"AES_{bits}", f"AES{bits}")
    short = short.removesuffix("_SHA256") if "CHACHA20" in short else short
    return short.replace("_", "-")
