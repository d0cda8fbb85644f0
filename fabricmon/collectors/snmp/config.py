"""What users write for SNMP, and how a target is reached."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from fabricmon.errors import ConfigError
from fabricmon.settings import Duration, Settings, Size

if TYPE_CHECKING:
    from fabricmon.api import Credential, Target

AUTH = ("none", "md5", "sha1", "sha224", "sha256", "sha384", "sha512")
PRIV = ("none", "des", "3des", "aes128", "aes192", "aes192c", "aes256", "aes256c")

_ALIASES = {"sha": "sha1", "sha-1": "sha1", "aes": "aes128", "": "none"}
_WORDS = ("version", "user", "auth", "priv", "context", "engine")
_MIN_KEY = 8  # RFC 3414 wants at least eight characters


class SnmpConfig(Settings):
    """How switches are asked.

    A credential is `{community: {file: …}}` for v2c, or for v3 `{version: 3, user: …, auth: sha256,
    auth_key: {file: …}, priv: aes128, priv_key: {file: …}}`. `aes256` extends short keys as
    Blumenthal's draft says, `aes256c` as Cisco does (Reeder); `engine: pysnmp` asks this target
    through the reference library.
    """

    timeout: Duration = 1.0
    """Until a request without an answer is sent again."""
    retries: Annotated[int, Field(ge=0, le=10)] = 2
    """How often it is sent again."""
    max_repetitions: Annotated[int, Field(ge=1, le=1000)] = 200
    """Values asked for in one request at most. What a device manages is learnt: its first walk
    begins small, doubles as long as replies come whole, and falls back when they do not."""
    reply_octets: Annotated[int, Field(ge=484, le=60_000)] = 8000
    """Longest reply asked for. Above the path's MTU one lost fragment loses the whole reply: set
    1400 where the path to the switches loses packets or blocks fragments."""
    in_flight: Annotated[int, Field(ge=1, le=64)] = 4
    """Requests a device may have to answer at the same time."""
    pace: Annotated[int, Field(ge=0)] = 0
    """Requests a second to one device at most; 0: as fast as it answers."""
    receive_buffer: Size = 4 << 20
    """Asked of the kernel; requests in flight are kept to what it grants."""
    any_source: bool = False
    """Take replies from another address than the one asked: some agents have several. The request
    id must still be right."""
    enrich_interval: Duration = 600.0
    """How often names, speeds and neighbours are read again without being told to."""
    queues: list[Annotated[int, Field(ge=0, le=15)]] = []
    """The priorities to read in every poll. Empty: those that the fabric's intent declares
    lossless, or all that a device has where it declares none."""
    other_queues_every: Annotated[int, Field(ge=0)] = 6
    """The other priorities are read in one of so many polls, so that traffic in a wrong one shows;
    0: never."""
    mappings: list[str] = []
    """Folders with mapping files of your own; they win over the built-in ones."""


@dataclass(frozen=True, slots=True)
class Access:
    """How one target is reached; keys are read when they are needed, and never print."""

    credential: Credential
    version: int
    user: str
    auth: str
    priv: str
    context: str
    engine: str

    def secret(self, name: str) -> bytes:
        """A community or key. Raises `ConfigError` where its source cannot be read."""
        return self.credential.secrets[name].reveal().encode()


def access(target: Target) -> Access:
    """Read a target's credential. Raises `ConfigError` for anything that cannot work."""
    credential = target.credential
    if credential is None:
        raise ConfigError(f"target {target.name} needs a credential with a community or a v3 user")
    where = f"credential {credential.name}"
    options = dict(credential.options)
    version = options.get("version") or ("2c" if "community" in credential.secrets else "3")
    unknown = sorted(set(options) - set(_WORDS))
    if unknown:
        raise ConfigError(f"{where}: unknown {unknown[0]!r}; SNMP knows {', '.join(_WORDS)}")
    engine = options.get("engine", "fast")
    if engine not in ("fast", "pysnmp"):
        raise ConfigError(f"{where}: engine {engine!r} is not known; use fast or pysnmp")
    if version in ("2", "2c"):
        if "community" not in credential.secrets:
            raise ConfigError(f"{where}: version 2c needs `community`")
        return Access(credential, 2, "", "none", "none", "", engine)
    if version != "3":
        raise ConfigError(f"{where}: version {version!r} is not supported; use 2c or 3")
    return _v3(credential, where, options, engine)


def _v3(credential: Credential, where: str, options: dict[str, str], engine: str) -> Access:
    auth = _choice(where, "auth", options, AUTH, "auth_key" in credential.secrets)
    priv = _choice(where, "priv", options, PRIV, "priv_key" in credential.secrets)
    user = options.get("user", "")
    if not user:
        raise ConfigError(f"{where}: version 3 needs `user`")
    if priv != "none" and auth == "none":
        raise ConfigError(f"{where}: `priv` without `auth` is not possible in SNMPv3")
    for name, used in (("auth_key", auth != "none"), ("priv_key", priv != "none")):
        if used and name not in credential.secrets:
            raise ConfigError(f"{where}: `{name.removesuffix('_key')}` needs `{name}`")
    if priv != "none" and find_spec("cryptography") is None:
        raise ConfigError(
            f"{where}: SNMPv3 privacy needs the Python package `cryptography`: "
            "install it, or use `priv: none`"
        )
    context = options.get("context", "")
    return Access(credential, 3, user, auth, priv, context, engine)


def _choice(
    where: str, key: str, options: dict[str, str], allowed: tuple[str, ...], has_key: bool
) -> str:
    default = {"auth": "sha256", "priv": "aes128"}[key] if has_key else "none"
    written = options.get(key, default).lower()
    name = _ALIASES.get(written, written).replace("sha-", "sha").replace("aes-", "aes")
    if name not in allowed:
        raise ConfigError(f"{where}: {key} {written!r} is not known; use {', '.join(allowed)}")
    return name


def check_keys(where: Access) -> None:
    """Refuse keys that no agent accepts, before the first request. Raises `ConfigError`."""
    for name, kind in (("auth_key", where.auth), ("priv_key", where.priv)):
        if kind != "none" and len(where.secret(name)) < _MIN_KEY:
            raise ConfigError(
                f"credential {where.credential.name}: `{name}` has fewer than {_MIN_KEY} characters"
            )
