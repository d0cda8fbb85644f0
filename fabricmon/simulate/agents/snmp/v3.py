"""Version 3 in front of an agent's answers: one user, one engine, reports as the standard wants."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabricmon.errors import FormatError
from fabricmon.formats.snmp import ber, snmp, snmp_usm

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricmon.simulate.agents.snmp.responder import Responder

_WINDOW_S = 150
_BOOTS = 1
_COUNTERS = tuple(map(int, snmp_usm.REPORTS.split(".")))
_NOBODY = snmp_usm.User(b"", "none", "none", b"", b"")
_NET_SNMP_TEXT = b"\x80\x00\x1f\x88\x04"


@dataclass(frozen=True, slots=True)
class V3User:
    """The one user that the simulated agents know. Protocols as `formats.snmp_usm` names them."""

    name: str = "fabricmon"
    auth: str = "sha256"
    auth_key: str = "simulated-auth-key"
    priv: str = "aes128"
    priv_key: str = "simulated-priv-key"


class UsmResponder:
    """Opens requests, has them answered, seals the replies."""

    def __init__(
        self, inner: Responder, community: bytes, name: str, user: V3User, now_s: Callable[[], int]
    ) -> None:
        """`name` makes the engine id; `now_s` is the engine's time since it was switched on."""
        self._inner, self._prefix, self._now = inner, snmp.prefix(community), now_s
        self._engine = _NET_SNMP_TEXT + hashlib.blake2b(name.encode(), digest_size=8).digest()
        self._user = snmp_usm.user_at(
            self._engine,
            user.name,
            user.auth,
            user.auth_key.encode(),
            user.priv,
            user.priv_key.encode(),
        )
        self._salt = self._problems = 0

    def answer(self, data: bytes) -> bytes | None:
        """The reply to one datagram; None where a real agent keeps silent."""
        try:
            number = int.from_bytes(snmp_usm.message_id_of(data), "big", signed=True)
            known, named = snmp_usm.engine_of(data), snmp_usm.user_of(data)
        except FormatError:
            return None
        if known != self._engine:
            return self._report(number, snmp_usm.UNKNOWN_ENGINE, _NOBODY)
        if named != self._user.name:
            return self._report(number, snmp_usm.UNKNOWN_USER, _NOBODY)
        try:
            opened = snmp_usm.open_message(data, self._user)
        except FormatError:
            return self._report(number, snmp_usm.WRONG_DIGEST, _NOBODY)
        return self._reply(number, opened)

    def _reply(self, number: int, opened: snmp_usm.Opened) -> bytes | None:
        if not opened.authentic and self._user.auth != "none":
            return self._report(number, snmp_usm.UNSUPPORTED_LEVEL, _NOBODY)
        late = abs(opened.time - self._now()) > _WINDOW_S
        if opened.authentic and (opened.boots != _BOOTS or late):
            return self._report(number, snmp_usm.NOT_IN_WINDOW, self._user)
        _, _, stop = ber.header(opened.payload, opened.at, len(opened.payload))
        asked = ber.tlv(ber.SEQUENCE, self._prefix + opened.payload[opened.at : stop])
        reply = self._inner.answer(asked)
        if reply is None:
            return None
        return self._seal(number, reply[snmp.pdu_of(reply)[1] :], self._user)

    def _report(self, number: int, which: int, user: snmp_usm.User) -> bytes:
        self._problems += 1
        counter = snmp.Varbind((*_COUNTERS, which, 0), ber.COUNTER32, self._problems)
        pdu = snmp.response(number, snmp.encode_varbind(counter), kind=snmp.PduType.REPORT)
        return self._seal(number, pdu, user)

    def _seal(self, number: int, pdu: bytes, user: snmp_usm.User) -> bytes:
        self._salt += 1
        return snmp_usm.seal(
            number,
            user,
            self._engine,
            _BOOTS,
            self._now(),
            snmp_usm.scoped(self._engine, b"", pdu),
            self._salt.to_bytes(8, "big"),
            flags=0,
        )
