"""SNMP through pysnmp: for what the fast path does not cover, and as its oracle.

One engine per credential, shared by all its targets: an engine costs seconds of CPU per hundred.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from fabricmon.errors import PollError, Reason
from fabricmon.formats.snmp import ber
from fabricmon.formats.snmp.snmp import Varbind
from fabricmon.model.readings import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fabricmon.collectors.snmp.config import Access, SnmpConfig
    from fabricmon.collectors.snmp.plan import Plan
    from fabricmon.formats.snmp.ber import Oid

_AUTH = {
    "none": "USM_AUTH_NONE",
    "md5": "USM_AUTH_HMAC96_MD5",
    "sha1": "USM_AUTH_HMAC96_SHA",
    "sha224": "USM_AUTH_HMAC128_SHA224",
    "sha256": "USM_AUTH_HMAC192_SHA256",
    "sha384": "USM_AUTH_HMAC256_SHA384",
    "sha512": "USM_AUTH_HMAC384_SHA512",
}
_PRIV = {
    "none": "USM_PRIV_NONE",
    "des": "USM_PRIV_CBC56_DES",
    "3des": "USM_PRIV_CBC168_3DES",
    "aes128": "USM_PRIV_CFB128_AES",
    "aes192": "USM_PRIV_CFB192_AES_BLUMENTHAL",
    "aes192c": "USM_PRIV_CFB192_AES",
    "aes256": "USM_PRIV_CFB256_AES_BLUMENTHAL",
    "aes256c": "USM_PRIV_CFB256_AES",
}
_REFUSED = {
    "UnknownUserName": "the user is not known to the agent",
    "UnknownSecurityName": "the user is not known to the agent",
    "WrongDigest": "the agent does not accept the authentication key",
    "AuthenticationFailure": "the authentication key or protocol is not the agent's",
    "AuthenticationError": "the authentication key or protocol is not the agent's",
    "DecryptionError": "the privacy key or protocol is not the agent's",
    "UnsupportedSecurityLevel": "the agent does not allow this user without (or with) privacy",
    "UnsupportedAuthProtocol": "the agent does not know this authentication protocol",
    "UnsupportedPrivProtocol": "the agent does not know this privacy protocol",
    "NotInTimeWindow": "the agent's clock cannot be followed",
}


class ReferenceEngines:
    """The shared pysnmp engines, one per credential, made on first use."""

    def __init__(self) -> None:
        self._engines: dict[str, tuple[Any, Any]] = {}

    def engine(self, access: Access) -> tuple[Any, Any]:
        """The engine and the user or community for a credential."""
        name = access.credential.name
        if name not in self._engines:
            from pysnmp.hlapi.v3arch import asyncio as hlapi  # noqa: PLC0415 - 0.3 s of CPU

            self._engines[name] = (hlapi.SnmpEngine(), _auth_data(hlapi, access))
        return self._engines[name]

    def close(self) -> None:
        """Close every engine's sockets."""
        for engine, _ in self._engines.values():
            engine.close_dispatcher()
        self._engines.clear()


def _auth_data(hlapi: Any, access: Access) -> Any:
    if access.version == 2:
        return hlapi.CommunityData(access.secret("community").decode(), mpModel=1)
    return hlapi.UsmUserData(
        access.user,
        access.secret("auth_key").decode() if access.auth != "none" else None,
        access.secret("priv_key").decode() if access.priv != "none" else None,
        authProtocol=getattr(hlapi, _AUTH[access.auth]),
        privProtocol=getattr(hlapi, _PRIV[access.priv]),
    )


class ReferenceSession:
    """One agent, asked through pysnmp."""

    def __init__(
        self,
        name: str,
        address: tuple[str, int],
        access: Access,
        config: SnmpConfig,
        engines: ReferenceEngines,
    ) -> None:
        """`name` is the target as errors call it."""
        self._name, self._address = name, address
        self._access, self._config, self._engines = access, config, engines
        self._transport: Any = None
        self._one_at_a_time = asyncio.Semaphore(config.in_flight)

    async def get(self, oids: Sequence[Oid]) -> Sequence[Varbind]:
        """The values of some instances."""
        return await self._ask("get_cmd", (), oids)

    async def bulk(self, after: Oid) -> Sequence[Varbind]:
        """One GETBULK."""
        return await self._ask("bulk_cmd", (0, self._config.max_repetitions), [after])

    async def read(
        self, plan: Plan, values: NDArray[np.uint64], state: NDArray[np.uint8]
    ) -> Counter[Reason]:
        """Get every instance by name, some at a time."""
        lost: Counter[Reason] = Counter()
        pieces = plan.pieces(self._config.max_repetitions, self._config.reply_octets)
        for first, stop, _ in pieces:
            places = plan.place[first:stop].tolist()
            try:
                got = await self.get([ber.decode_oid(oid) for oid in plan.encoded(first, stop)])
            except PollError as error:
                if not first:
                    raise
                lost[error.reason] += len(places)
                continue
            for place, varbind in zip(places, got, strict=False):
                if isinstance(varbind.value, int) and varbind.value >= 0:
                    values[place] = varbind.value
                    state[place] = State.OK
                else:
                    lost[Reason.UNEXPECTED] += 1
        return lost

    def close(self) -> None:
        """Nothing of its own."""
        self._transport = None

    async def _ask(
        self, command: str, numbers: tuple[int, ...], oids: Sequence[Oid]
    ) -> Sequence[Varbind]:
        from pysnmp.hlapi.v3arch import asyncio as hlapi  # noqa: PLC0415 - 0.3 s of CPU

        engine, auth = self._engines.engine(self._access)
        if self._transport is None:
            self._transport = await hlapi.UdpTransportTarget.create(
                self._address, timeout=self._config.timeout, retries=self._config.retries
            )
        objects = [hlapi.ObjectType(hlapi.ObjectIdentity(oid)) for oid in oids]
        context = hlapi.ContextData(contextName=self._access.context.encode())
        async with self._one_at_a_time:
            failure, status, _, varbinds = await getattr(hlapi, command)(
                engine, auth, self._transport, context, *numbers, *objects, lookupMib=False
            )
        if failure:
            raise self._error(failure)
        if status:
            raise PollError(Reason.UNEXPECTED, f"{self._name}: error status {int(status)}")
        return [_varbind(name, value) for name, value in varbinds]

    def _error(self, failure: Any) -> PollError:
        kind = type(failure).__name__
        if kind in _REFUSED:
            return PollError(Reason.AUTHENTICATION, f"{self._name}: {_REFUSED[kind]}")
        if kind == "RequestTimedOut":
            return no_answer(self._name, self._access, self._config)
        return PollError(Reason.MALFORMED, f"{self._name}: {kind}")


def no_answer(name: str, access: Access, config: SnmpConfig) -> PollError:
    """The one message for silence, which is also how agents refuse a community."""
    doubt = ", or the community is wrong" if access.version == 2 else ""
    if access.priv != "none":
        doubt = ", or the privacy key is wrong"
    tries = config.retries + 1
    text = f"{name}: no answer to {tries} requests within {config.timeout * tries:g} s: "
    return PollError(Reason.TIMEOUT, f"{text}unreachable{doubt}")


def _varbind(name: Any, value: Any) -> Varbind:
    found = tuple(name)
    tag = int(value.tagSet[-1].tagClass | value.tagSet[-1].tagId)
    if tag in (ber.NULL, 0x80, 0x81, 0x82):
        return Varbind(found, tag, None)
    if tag == ber.OID:
        return Varbind(found, tag, tuple(value))
    if hasattr(value, "asOctets"):
        return Varbind(found, tag, value.asOctets())
    return Varbind(found, tag, int(value))
