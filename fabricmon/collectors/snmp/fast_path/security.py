"""How a PDU becomes a message and a message a PDU: by community, or by a v3 user."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fabricmon.errors import FormatError, PollError, Reason
from fabricmon.formats.snmp import ber, snmp, snmp_usm

if TYPE_CHECKING:
    from fabricmon.clock import Clock
    from fabricmon.collectors.snmp.config import Access
    from fabricmon.formats.snmp.snmp_usm import User

_WINDOW_S = 150  # RFC 3414: how far an engine's clock may be off

WORDS = {
    snmp_usm.UNSUPPORTED_LEVEL: "the agent does not allow this user this security level",
    snmp_usm.NOT_IN_WINDOW: "the agent's clock cannot be followed",
    snmp_usm.UNKNOWN_USER: "the user is not known to the agent",
    snmp_usm.UNKNOWN_ENGINE: "the agent changed its engine id",
    snmp_usm.WRONG_DIGEST: "the agent does not accept the authentication key",
    snmp_usm.DECRYPTION: "the privacy key or protocol is not the agent's",
}
"""What the reports of an agent mean."""


class Prepared(NamedTuple):
    """A request ready to be sent many times: only the four octets at `id_at` change."""

    octets: bytearray
    id_at: int


class Security(Protocol):
    """One agent's way of being spoken to."""

    def prepare(self, pdu: bytes) -> Prepared:
        """Whatever can be done once."""

    def seal(self, prepared: Prepared, key: bytes) -> bytes | bytearray:
        """The message to send, with this request id (and message id)."""

    def open(self, data: bytes) -> tuple[bytes, int]:
        """The plain octets and the offset of the PDU in them. Raises `FormatError`."""


def _id_at(pdu: bytes) -> int:
    _, start, _ = ber.header(pdu, 0, len(pdu))
    return start + 2


class Community:
    """Version 2c."""

    def __init__(self, community: bytes) -> None:
        self._prefix = snmp.prefix(community)

    def prepare(self, pdu: bytes) -> Prepared:
        """The whole message."""
        message = ber.tlv(ber.SEQUENCE, self._prefix + pdu)
        return Prepared(bytearray(message), len(message) - len(pdu) + _id_at(pdu))

    def seal(self, prepared: Prepared, key: bytes) -> bytearray:
        """Patch the request id in."""
        prepared.octets[prepared.id_at : prepared.id_at + 4] = key
        return prepared.octets

    def open(self, data: bytes) -> tuple[bytes, int]:
        """Past the header, which must carry our community."""
        start = 2 + (data[1] & 0x7F if data[1] & 0x80 else 0)
        if not data.startswith(self._prefix, start):
            raise FormatError("a reply of another version or community")
        return data, start + len(self._prefix)


_NOBODY = snmp_usm.User(b"", "none", "none", b"", b"")


class Usm:
    """Version 3: one user at one engine, whose clock is kept."""

    def __init__(self, name: str, access: Access, clock: Clock) -> None:
        """`name` is the target as errors call it."""
        self._name, self._access, self._clock = name, access, clock
        self._context = access.context.encode()
        self._salt = secrets.randbits(64)
        self._boots, self._time, self._at = 0, 0, 0.0
        self.engine = b""
        """Empty until the agent has told it."""
        self.user: User | None = None

    def learn(self, engine: bytes, boots: int, time: int) -> None:
        """Take the engine an agent reported. Raises `PollError` for one that cannot be."""
        if not 5 <= len(engine) <= 32:
            raise PollError(Reason.MALFORMED, f"{self._name}: an engine id of {len(engine)} octets")
        if engine != self.engine or self.user is None:
            how = self._access
            self.user = snmp_usm.user_at(
                engine,
                how.user,
                how.auth,
                how.secret("auth_key") if how.auth != "none" else b"",
                how.priv,
                how.secret("priv_key") if how.priv != "none" else b"",
            )
            self.engine = engine
        self.set_clock(boots, time)

    def set_clock(self, boots: int, time: int) -> None:
        """Follow the engine's clock from here."""
        self._boots, self._time, self._at = boots, time, self._clock.monotonic()

    def forget(self) -> None:
        """The engine is another one: discover it again."""
        self.engine, self.user = b"", None

    def prepare(self, pdu: bytes) -> Prepared:
        """The scoped PDU; encryption and signature differ from message to message.

        Before the engine is known this is the question for it: no engine, no user.
        """
        plain = snmp_usm.scoped(self.engine, self._context, pdu)
        return Prepared(bytearray(plain), len(plain) - len(pdu) + _id_at(pdu))

    def seal(self, prepared: Prepared, key: bytes) -> bytes:
        """Patch the id in, encrypt, sign."""
        prepared.octets[prepared.id_at : prepared.id_at + 4] = key
        self._salt = self._salt + 1 & 0xFFFF_FFFF_FFFF_FFFF
        return snmp_usm.seal(
            int.from_bytes(key, "big"),
            self.user or _NOBODY,
            self.engine,
            self._boots,
            self._now(),
            bytes(prepared.octets),
            self._salt.to_bytes(8, "big"),
        )

    def _now(self) -> int:
        return self._time + int(self._clock.monotonic() - self._at)

    def open(self, data: bytes) -> tuple[bytes, int]:
        """Check and decrypt. Only a report may come unsigned; its octets say what is the matter.

        Raises `ReportError` for a report, `FormatError` for anything that cannot be trusted.
        """
        opened = snmp_usm.open_message(data, self.user)
        kind = opened.payload[opened.at]
        if kind == snmp.PduType.REPORT:
            raise ReportError(_report(opened.payload, opened.at), opened)
        signed = self.user is None or self.user.auth == "none" or opened.authentic
        if not signed or opened.engine != self.engine:
            raise FormatError("an unsigned reply, or one of another engine")
        if (opened.boots, opened.time + _WINDOW_S) < (self._boots, self._now()):
            raise FormatError("a reply from the engine's past")
        if (opened.boots, opened.time) > (self._boots, self._now()):
            self.set_clock(opened.boots, opened.time)
        return opened.payload, opened.at


class ReportError(FormatError):
    """The agent answered with a report: which counter it raised, and the message it came in."""

    def __init__(self, which: int, opened: snmp_usm.Opened) -> None:
        super().__init__(WORDS.get(which, "a report"))
        self.which, self.opened = which, opened


_REPORTS = tuple(map(int, snmp_usm.REPORTS.split(".")))


def _report(payload: bytes, at: int) -> int:
    for varbind in snmp.decode(payload, at).varbinds:
        if varbind.oid[: len(_REPORTS)] == _REPORTS and len(varbind.oid) > len(_REPORTS):
            return varbind.oid[len(_REPORTS)]
    return 0
