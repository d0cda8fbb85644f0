"""SNMPv3 with the user-based security model: keys, and messages sealed and opened. Pure.

Key extension for AES-192/256 exists in two kinds: `aes256` follows Blumenthal's draft, `aes256c`
is what Cisco and Reeder do. They differ only where the digest is shorter than the key.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from fabricmon.errors import FormatError
from fabricmon.formats.snmp import ber

if TYPE_CHECKING:
    from collections.abc import Callable

_DIGESTS = {"md5": 12, "sha1": 12, "sha224": 16, "sha256": 24, "sha384": 32, "sha512": 48}
_KEY_SIZES = {"aes128": 16, "aes192": 24, "aes192c": 24, "aes256": 32, "aes256c": 32}

COVERED_AUTH = frozenset(("none", *_DIGESTS))
COVERED_PRIV = frozenset(("none", *_KEY_SIZES))
"""What this module can do; DES and 3DES are left to pysnmp."""

_USM = 3
_REPORTABLE, _PRIVATE, _AUTHENTIC = 4, 2, 1
_MAX_MESSAGE = 65_507
_MEGABYTE = 1 << 20

REPORTS = "1.3.6.1.6.3.15.1.1"
"""The counters that agents name in reports, by their last number but one."""
UNSUPPORTED_LEVEL, NOT_IN_WINDOW, UNKNOWN_USER = 1, 2, 3
UNKNOWN_ENGINE, WRONG_DIGEST, DECRYPTION = 4, 5, 6


@dataclass(frozen=True, slots=True)
class User:
    """Keys of one user at one engine. Never printed."""

    name: bytes
    auth: str
    priv: str
    auth_key: bytes
    priv_key: bytes

    def __repr__(self) -> str:
        return f"User({self.name!r}, {self.auth}, {self.priv})"

    @property
    def flags(self) -> int:
        """The security level as message flags."""
        return (_AUTHENTIC if self.auth != "none" else 0) | (_PRIVATE if self.priv != "none" else 0)


class Opened(NamedTuple):
    """A message that was opened: engine, its clock, the plain scoped PDU and where its PDU is."""

    engine: bytes
    boots: int
    time: int
    authentic: bool
    payload: bytes
    at: int


@lru_cache(maxsize=256)
def _password_key(digest: str, password: bytes) -> bytes:
    """A megabyte of the password, hashed (RFC 3414 A.2)."""
    if not password:
        raise ValueError("an empty password")
    repeated = password * (_MEGABYTE // len(password) + 1)
    return hashlib.new(digest, repeated[:_MEGABYTE], usedforsecurity=False).digest()


def localized(digest: str, password: bytes, engine: bytes) -> bytes:
    """The key of `password` at one engine."""
    key = _password_key(digest, password)
    return hashlib.new(digest, key + engine + key, usedforsecurity=False).digest()


def privacy_key(digest: str, priv: str, password: bytes, engine: bytes) -> bytes:
    """The privacy key, extended where the digest is too short for it."""
    key, size = localized(digest, password, engine), _KEY_SIZES[priv]
    last = key
    while len(key) < size:
        if priv.endswith("c"):
            last = localized(digest, last, engine)
            key += last
        else:
            key += hashlib.new(digest, key, usedforsecurity=False).digest()
    return key[:size]


def user_at(
    engine: bytes, name: str, auth: str, auth_key: bytes, priv: str, priv_key: bytes
) -> User:
    """A user's keys at an engine."""
    return User(
        name.encode(),
        auth,
        priv,
        localized(auth, auth_key, engine) if auth != "none" else b"",
        privacy_key(auth, priv, priv_key, engine) if priv != "none" else b"",
    )


def _cfb() -> Callable[[bytes, bytes], Any]:
    """AES in CFB mode; the mode moved between versions of the library."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms  # noqa: PLC0415 - late

    try:
        from cryptography.hazmat.decrepit.ciphers.modes import CFB  # noqa: PLC0415 - new place
    except ImportError:
        from cryptography.hazmat.primitives.ciphers.modes import CFB  # noqa: PLC0415 - old place

    def make(key: bytes, iv: bytes) -> Any:
        return Cipher(algorithms.AES(key), CFB(iv))

    return make


_cipher: Callable[[bytes, bytes], Any] | None = None


def _aes(key: bytes, boots: int, time: int, salt: bytes) -> Any:
    global _cipher  # noqa: PLW0603 - the library is imported once, on first use
    if _cipher is None:
        _cipher = _cfb()
    return _cipher(key, boots.to_bytes(4, "big") + time.to_bytes(4, "big") + salt)


def scoped(engine: bytes, context: bytes, pdu: bytes) -> bytes:
    """A scoped PDU."""
    content = ber.tlv(ber.OCTETS, engine) + ber.tlv(ber.OCTETS, context) + pdu
    return ber.tlv(ber.SEQUENCE, content)


def seal(
    message_id: int,
    user: User,
    engine: bytes,
    boots: int,
    time: int,
    plain: bytes,
    salt: bytes,
    *,
    flags: int = _REPORTABLE,
) -> bytes:
    """A message around a scoped PDU, encrypted and signed as the user can. `salt`: eight octets."""
    if user.priv != "none":
        encryptor = _aes(user.priv_key, boots, time, salt).encryptor()
        data = ber.tlv(ber.OCTETS, encryptor.update(plain))
    else:
        data, salt = plain, b""
    size = _DIGESTS[user.auth] if user.auth != "none" else 0
    tail = ber.tlv(ber.OCTETS, salt)
    parameters = ber.tlv(
        ber.SEQUENCE,
        ber.tlv(ber.OCTETS, engine)
        + ber.integer(boots)
        + ber.integer(time)
        + ber.tlv(ber.OCTETS, user.name)
        + ber.tlv(ber.OCTETS, bytes(size))
        + tail,
    )
    rest = ber.tlv(ber.OCTETS, parameters) + data
    message = ber.tlv(ber.SEQUENCE, _globals(message_id, user.flags | flags) + rest)
    if not size:
        return message
    at = len(message) - len(data) - len(tail) - size
    digest = hmac.digest(user.auth_key, message, user.auth)[:size]
    return b"".join((message[:at], digest, message[at + size :]))


def _globals(message_id: int, flags: int) -> bytes:
    header = ber.tlv(
        ber.SEQUENCE,
        ber.integer(message_id)
        + ber.integer(_MAX_MESSAGE)
        + bytes((ber.OCTETS, 1, flags))
        + ber.integer(_USM),
    )
    return ber.integer(3) + header


def message_id_of(data: bytes) -> bytes:
    """The four octets of a version 3 message's id. Raises `FormatError`."""
    at, stop = ber.expect(data, 0, len(data), ber.SEQUENCE)
    _, at = ber.decode_integer(data, at, stop)
    at, stop = ber.expect(data, at, stop, ber.SEQUENCE)
    start, stop = ber.expect(data, at, stop, ber.INTEGER)
    return data[start:stop]


def engine_of(data: bytes) -> bytes:
    """The engine id a message speaks to; empty in the question for it. Raises `FormatError`."""
    return _security(data)[0]


def user_of(data: bytes) -> bytes:
    """The user a message says it is from. Raises `FormatError`."""
    return _security(data)[1]


def _security(data: bytes) -> tuple[bytes, bytes]:
    at, end = ber.expect(data, 0, len(data), ber.SEQUENCE)
    _, at = ber.decode_integer(data, at, end)
    _, at = ber.expect(data, at, end, ber.SEQUENCE)
    at, end = ber.expect(data, at, end, ber.OCTETS)
    at, end = ber.expect(data, at, end, ber.SEQUENCE)
    start, at = ber.expect(data, at, end, ber.OCTETS)
    engine = data[start:at]
    _, at = ber.decode_integer(data, at, end)
    _, at = ber.decode_integer(data, at, end)
    start, at = ber.expect(data, at, end, ber.OCTETS)
    return engine, data[start:at]


def open_message(data: bytes, user: User | None) -> Opened:
    """Check and decrypt a message. Raises `FormatError`; a wrong signature is one, too."""
    at, end = ber.expect(data, 0, len(data), ber.SEQUENCE)
    version, at = ber.decode_integer(data, at, end)
    if version != _USM:
        raise FormatError(f"SNMP version {version} where 3 is due")
    head, at = ber.expect(data, at, end, ber.SEQUENCE)
    _, head = ber.decode_integer(data, head, at)
    _, head = ber.decode_integer(data, head, at)
    start, stop = ber.expect(data, head, at, ber.OCTETS)
    flags = data[start] if stop > start else 0
    start, at = ber.expect(data, at, end, ber.OCTETS)
    engine, boots, time, signature, salt = _parameters(data, start, at)
    if flags & _AUTHENTIC:
        if user is None or user.auth == "none":
            raise FormatError("a signed message that nobody has a key for")
        _verify(data, user, signature)
    payload = data
    if flags & _PRIVATE:
        if user is None or user.priv == "none" or len(salt) != 8:
            raise FormatError("an encrypted message that nobody has a key for")
        start, at = ber.expect(data, at, end, ber.OCTETS)
        decryptor = _aes(user.priv_key, boots, time, salt).decryptor()
        payload, at = decryptor.update(data[start:at]), 0
    return Opened(engine, boots, time, bool(flags & _AUTHENTIC), payload, _pdu_at(payload, at))


def _parameters(data: bytes, at: int, end: int) -> tuple[bytes, int, int, slice, bytes]:
    at, end = ber.expect(data, at, end, ber.SEQUENCE)
    start, at = ber.expect(data, at, end, ber.OCTETS)
    engine = data[start:at]
    boots, at = ber.decode_integer(data, at, end)
    time, at = ber.decode_integer(data, at, end)
    if not (0 <= boots < 1 << 31 and 0 <= time < 1 << 31):
        raise FormatError("an engine clock that is not allowed")
    _, at = ber.expect(data, at, end, ber.OCTETS)
    start, at = ber.expect(data, at, end, ber.OCTETS)
    signature = slice(start, at)
    start, at = ber.expect(data, at, end, ber.OCTETS)
    return engine, boots, time, signature, data[start:at]


def _verify(data: bytes, user: User, signature: slice) -> None:
    size = _DIGESTS[user.auth]
    found = data[signature]
    blank = b"".join((data[: signature.start], bytes(len(found)), data[signature.stop :]))
    if not hmac.compare_digest(hmac.digest(user.auth_key, blank, user.auth)[:size], found):
        raise FormatError("a signature that is not the agent's")


def _pdu_at(payload: bytes, at: int) -> int:
    """Past the context engine and name of a scoped PDU."""
    at, end = ber.expect(payload, at, len(payload), ber.SEQUENCE)
    _, at = ber.expect(payload, at, end, ber.OCTETS)
    _, at = ber.expect(payload, at, end, ber.OCTETS)
    if at >= end:
        raise FormatError("a scoped PDU without a PDU")
    return at
