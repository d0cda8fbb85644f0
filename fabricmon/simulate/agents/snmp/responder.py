"""Answers to SNMPv2c requests out of a `Table`.

Pollers repeat themselves: what a request asks for is worked out once and remembered by its octets
without the request id, so that most answers are one look-up and one slice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabricmon.errors import FormatError
from fabricmon.formats.snmp import ber, snmp
from fabricmon.formats.snmp.snmp import ErrorStatus, PduType
from fabricmon.simulate.agents.snmp.table import end_of_view, none_such

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabricmon.simulate.agents.snmp.table import Table

SYS_UPTIME = (1, 3, 6, 1, 2, 1, 1, 3, 0)
_MAX_REMEMBERED = 65_536
_MAX_VARBINDS = 2_000
_MAX_REPLY = 60_000

_Answer = tuple[tuple[int, int], ...]
"""Stretches first..stop of the table."""


class Responder:
    """One agent's answers."""

    def __init__(
        self, table: Table, community: bytes, uptime_cs: Callable[[], int], max_varbinds: int = 500
    ) -> None:
        """`max_varbinds`: no reply holds more, whatever is asked."""
        self.table = table
        self._prefix = snmp.prefix(community)
        self._uptime_cs, self._max_varbinds = uptime_cs, max_varbinds
        self._uptime = table.index.get(ber.encode_oid(SYS_UPTIME), -1)
        self._known: dict[bytes, _Answer] = {}

    def answer(self, data: bytes) -> bytes | None:
        """The reply to one datagram; None where a real agent keeps silent."""
        try:
            at = self._request_id_at(data)
            if not at:
                return None
            known = self._known.get(data[:at] + data[at + 4 :])
            if known is not None:
                varbinds = self.table.varbinds
                body = b"".join([varbinds(first, stop) for first, stop in known])
                return self._reply(data[at - 2 : at + 4], body)
            return self._work_out(data, at)
        except (IndexError, FormatError):
            return None

    def _request_id_at(self, data: bytes) -> int:
        """Where the four octets of the request id are; 0 for another community or version."""
        start = 2 + (data[1] & 0x7F if data[1] & 0x80 else 0)
        if not data.startswith(self._prefix, start):
            return 0
        at = start + len(self._prefix)
        at += 2 + (data[at + 1] & 0x7F if data[at + 1] & 0x80 else 0)
        return at + 2

    def _work_out(self, data: bytes, at: int) -> bytes:
        _, start = snmp.pdu_of(data)
        pdu = snmp.decode(data, start)
        names = [ber.encode_oid(varbind.oid) for varbind in pdu.varbinds]
        number = ber.integer(pdu.request_id)
        plain = self._plain(pdu, names)
        if plain and data[at - 1] == 4 and len(self._known) < _MAX_REMEMBERED:
            self._known[data[:at] + data[at + 4 :]] = plain
        if pdu.type == PduType.GET:
            body = b"".join(map(self._get, names))
        elif pdu.type == PduType.GETNEXT:
            body = b"".join(self._next(varbind.oid) for varbind in pdu.varbinds)
        elif pdu.type == PduType.GETBULK:
            body = self._bulk(pdu)
        else:
            return self._message(snmp.response(pdu.request_id, b"", status=ErrorStatus.GEN_ERR))
        if len(body) > _MAX_REPLY:
            return self._message(snmp.response(pdu.request_id, b"", status=ErrorStatus.TOO_BIG))
        return self._reply(number, body)

    def _plain(self, pdu: snmp.Pdu, names: list[bytes]) -> _Answer:
        """The answer as stretches of the table; empty where it is not only that."""
        if pdu.type == PduType.GET:
            found = [self.table.index.get(name, self._uptime) for name in names]
            return () if self._uptime in found else tuple((i, i + 1) for i in found)
        if pdu.type != PduType.GETBULK or len(names) != 1 or pdu.error_status:
            return ()
        first = self.table.after(pdu.varbinds[0].oid)
        stop = self._stop(first, pdu.error_index)
        if stop - first < min(pdu.error_index, self._max_varbinds) or first <= self._uptime < stop:
            return ()
        return ((first, stop),)

    def _stop(self, first: int, wanted: int) -> int:
        table = self.table
        stop = min(first + max(0, wanted), first + self._max_varbinds, len(table))
        while stop > first + 1 and table.bounds[stop] - table.bounds[first] > _MAX_REPLY:
            stop = first + (stop - first) // 2
        return stop

    def _get(self, name: bytes) -> bytes:
        i = self.table.index.get(name)
        return none_such(name) if i is None else self._instance(i)

    def _instance(self, i: int) -> bytes:
        if i == self._uptime:
            value = snmp.Varbind(SYS_UPTIME, ber.TIMETICKS, self._uptime_cs())
            return snmp.encode_varbind(value)
        return self.table.varbinds(i, i + 1)

    def _next(self, oid: ber.Oid) -> bytes:
        i = self.table.after(oid)
        return self._instance(i) if i < len(self.table) else end_of_view(ber.encode_oid(oid))

    def _bulk(self, pdu: snmp.Pdu) -> bytes:
        """The general case: `error_status` and `error_index` carry the two numbers of GETBULK."""
        single = max(0, pdu.error_status)
        out = [self._next(varbind.oid) for varbind in pdu.varbinds[:single]]
        columns = [(self.table.after(v.oid), ber.encode_oid(v.oid)) for v in pdu.varbinds[single:]]
        for repeat in range(max(0, pdu.error_index)):
            if not columns or len(out) >= min(self._max_varbinds, _MAX_VARBINDS):
                break
            places = [first + repeat for first, _ in columns]
            for place, (_, asked) in zip(places, columns, strict=True):
                if place < len(self.table):
                    out.append(self._instance(place))
                else:
                    last = ber.encode_oid(self.table.oids[-1]) if len(self.table) else asked
                    out.append(end_of_view(last))
            if min(places) >= len(self.table):
                break
        return b"".join(out)

    def _reply(self, number: bytes, body: bytes) -> bytes:
        content = b"".join((number, b"\x02\x01\x00\x02\x01\x00", ber.tlv(ber.SEQUENCE, body)))
        return self._message(ber.tlv(PduType.RESPONSE, content))

    def _message(self, pdu: bytes) -> bytes:
        return ber.tlv(ber.SEQUENCE, self._prefix + pdu)
