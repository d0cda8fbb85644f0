"""One gNMI target: a subscription that is kept alive, and what came of it since the last poll."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from fabricmon.collectors.gnmi.harvest import Harvest, load_paths
from fabricmon.errors import PollError, Reason
from fabricmon.formats.base import Layout
from fabricmon.formats.gnmi import gnmi_path
from fabricmon.formats.gnmi.gnmi_notification import NotificationReader, write_path
from fabricmon.formats.gnmi.gnmi_proto import SERVICE, messages
from fabricmon.formats.gnmi.gnmi_record import Recorder
from fabricmon.formats.lines.series_table import SeriesTable
from fabricmon.selfmon import Event
from fabricmon.settings import masked

if TYPE_CHECKING:
    from fabricmon.api import Context, Target
    from fabricmon.collectors.gnmi.live import GnmiConfig
    from fabricmon.model.readings import Poll

_ENCODINGS = ("proto", "json_ietf", "json")
_PACK_EVERY = 256
"""Messages between two packings: numbers as text take more room than in an array."""
_FIRST_BACKOFF_S = 1.0
_CONNECT_S = 3.0
"""How long a connection may take to come about, at least."""
_AWAY_S = 0.02
"""Time for one try to connect, where many devices are away: it costs half a millisecond of CPU."""
PATIENT_S = 60.0
"""A slow device's longest silence."""
_OPTIONS = (
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),  # what failed once must not hold the next try back
)


class Session:
    """Subscribes, reads, and subscribes again whenever the stream ends, falls silent or lies."""

    def __init__(
        self, target: Target, config: GnmiConfig, context: Context, away: set[str]
    ) -> None:
        """Nothing is opened before `run` or the first `once`.

        `away` is shared by all sessions: the names of targets that could not be reached.
        """
        self._away = away
        self._target, self._config, self._context = target, config, context
        self.paths = load_paths(target.mapping or "openconfig", config.mappings)
        table = SeriesTable(Layout(target.name), self.paths, config.series)
        self.recorder = Recorder(table, self.paths, device=target.name)
        self._asked = str((target.options or {}).get("target") or self.paths.target)
        self._reader = NotificationReader(self.recorder, target.name, self._asked)
        self._encoding: str = config.encoding
        self.harvest = Harvest(self.recorder, self.paths, context.report, self._reader.forget)
        self._unpacked = 0
        self._call: Any = None
        self._changed = asyncio.Event()  # the first answer is complete, or there will be none
        self._answered = asyncio.Event()  # so is the answer to the last request
        self.synced = False
        """The device sent everything once. Being connected is not enough."""
        self._error: PollError | None = None
        self._silence_s = config.silence_s(self.paths)
        self._beats = False  # something came after the first complete answer
        self._since = 0.0  # when the subscription was sent
        self._heard = 0.0  # when the last message came

    async def run(self) -> None:
        """Keep the subscription alive until cancelled."""
        failures, clock = 0, self._context.clock
        while True:
            try:
                await self._stream()
                error = PollError(Reason.UNREACHABLE, "the device ended the stream")
            except PollError as raised:
                error = raised
            lived = clock.monotonic() - self._since >= self._config.interval_s
            if self.synced and lived:
                # Sent away, maybe to come back at once: the next try tells, and polls wait for it.
                failures, self._error = 0, None
                self._changed.clear()
            else:
                failures += 1
                self._away.add(self._target.name)
                self._fail(error)
            self._lose_session()
            await clock.sleep(self._pause(failures))

    def _pause(self, failures: int) -> float:
        """Seconds until the next try: doubling, bounded, and apart for those lost together."""
        interval_s = self._config.interval_s
        spread = crc32(f"{self._target.name}{failures}".encode()) % 1000 / 1000
        if not failures:
            return spread * min(_FIRST_BACKOFF_S, interval_s / 10)
        longest = self._config.backoff or max(interval_s / 2, len(self._away) * _AWAY_S)
        return min(_FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 30), longest) * (0.5 + spread / 2)

    async def poll(self) -> Poll:
        """What came since the last poll. Raises `PollError` while there is no live subscription."""
        if not self.synced and self._error is None:
            await self._verdict(self._changed)
        self._watch()
        if not self.synced:
            raise self._error or PollError(Reason.NO_DATA, "connected, but nothing was sent yet")
        if self._config.mode == "poll":
            await self._ask()
        return self._collected()

    async def once(self) -> Poll:
        """Subscribe, read everything once, and leave. Raises `PollError`."""
        self._lose_session()
        await self._stream()
        if not self.synced:
            raise PollError(Reason.TRUNCATED, "the stream ended before everything was sent")
        return self._collected()

    async def _ask(self) -> None:
        """Ask for everything, and wait for the end of the answer. Raises `PollError`."""
        call, gnmi = self._call, messages()
        self._answered.clear()
        if call is not None:
            await call.write(gnmi.SubscribeRequest(poll=gnmi.Poll()))
            await self._verdict(self._answered)
        if not self.synced:
            raise self._error or PollError(Reason.NO_DATA, "the stream ended")

    async def _verdict(self, event: asyncio.Event) -> None:
        """Wait for an answer. Where that takes too long for a poll, the next ones do not wait."""
        try:
            await event.wait()
        except asyncio.CancelledError:
            self._fail(PollError(Reason.NO_DATA, "connected, but not synchronised yet"))
            if self.synced and self._call is not None:
                self.synced = False
                self._call.cancel()
            raise

    def _watch(self) -> None:
        """Give up a stream that is silent, or that never gets to the end of its first answer."""
        now = self._context.clock.monotonic()
        if self._call is None:
            return
        unsynced = not self.synced and now - self._since > self._config.sync_timeout
        silent = self.synced and now - self._heard >= self._silence_s
        silent = silent and self._config.mode == "stream"
        if silent and not self._beats and self._config.silence is None:
            self._silence_s = min(2 * self._silence_s, max(PATIENT_S, self._silence_s))
        if unsynced or silent:
            what = "silent" if silent else "connected, but not synchronised"
            self._fail(PollError(Reason.NO_DATA, f"{what} for too long; subscribing again"))
            self._context.report.emit(Event.FALLBACK, self._target.name, why=what)
            self.synced = False
            self._call.cancel()

    async def _stream(self) -> None:
        """One subscription, to its end. Raises `PollError`."""
        import grpc  # noqa: PLC0415 - 30 MB that only live gNMI needs

        gnmi = messages()
        channel = self._channel(grpc)
        try:
            method = channel.stream_stream(
                f"{SERVICE}Subscribe",
                request_serializer=gnmi.SubscribeRequest.SerializeToString,
            )
            if self._encoding == "auto":
                self._encoding = await self._best_encoding(channel, gnmi)
            self._call = call = method(metadata=self._metadata())
            self._since, self._beats = self._context.clock.monotonic(), False
            await call.write(self._request(gnmi))
            while (message := await call.read()) is not grpc.aio.EOF:
                self._take(message)
                if self.synced and self._config.mode == "once":
                    return
            code = await call.code()
            if code is not grpc.StatusCode.OK:
                raise self._failure(code.name, await call.details())
        except grpc.aio.AioRpcError as error:
            # What the device said may repeat the password it was given; the cause is not kept.
            raise self._failure(error.code().name, error.details()) from None
        except asyncio.InvalidStateError as error:
            raise PollError(Reason.UNEXPECTED, f"the stream broke: {error}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise PollError(Reason.NO_DATA, "the stream was given up") from None
        finally:
            self._call = None
            await channel.close()

    async def _best_encoding(self, channel: Any, gnmi: Any) -> str:
        """The cheapest encoding that the device says it has; PROTO where it says nothing."""
        import grpc  # noqa: PLC0415 - as in _stream

        ask = channel.unary_unary(
            f"{SERVICE}Capabilities",
            request_serializer=gnmi.CapabilityRequest.SerializeToString,
            response_deserializer=gnmi.CapabilityResponse.FromString,
        )
        try:
            answer = await ask(gnmi.CapabilityRequest(), metadata=self._metadata(), timeout=10)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            return "proto"
        has = set(answer.supported_encodings)
        best = (name for name in _ENCODINGS if getattr(gnmi.Encoding, name.upper()) in has)
        return next(best, "proto")

    def _take(self, message: bytes) -> None:
        clock = self._context.clock
        self._heard = clock.monotonic()
        samples = self.recorder.samples
        self._beats = self._beats or self.synced
        try:
            if self._reader.take_raw(message, clock.now_ns()):
                self.synced, self._error = True, None
                self._away.discard(self._target.name)
                self._changed.set()
                self._answered.set()
                return
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            self.harvest.lose(Reason.MALFORMED)
            self._context.report.emit(Event.RECORD_SKIPPED, self._target.name, reason=str(error))
        self._unpacked += 1
        if self._unpacked >= _PACK_EVERY:
            self._pack()
            while len(samples) > self._config.buffer:
                self.harvest.lose(Reason.LIMIT, samples.drop_oldest())

    def _pack(self) -> None:
        self._unpacked = 0
        self.recorder.samples.pack(self._context.clock.now_ns())

    def _collected(self) -> Poll:
        self._pack()
        return self.harvest.poll()

    def _fail(self, error: PollError) -> None:
        if self._error is None or error.reason is not Reason.NO_DATA:
            self._error = error
        self._changed.set()
        self._answered.set()

    def _lose_session(self) -> None:
        self.synced = False
        self.harvest.break_off()

    def _request(self, gnmi: Any) -> Any:
        config = self._config
        request = gnmi.SubscribeRequest()
        wanted = request.subscribe
        wanted.mode = getattr(gnmi.ListMode, config.mode.upper())
        wanted.encoding = getattr(gnmi.Encoding, self._encoding.upper())
        wanted.prefix.target = self._asked
        for path, mode, interval in config.wanted(self.paths):
            entry = wanted.subscription.add(mode=getattr(gnmi.SubscriptionMode, mode.upper()))
            write_path(gnmi_path.split(path), entry.path)
            if mode == "sample":
                entry.sample_interval = round(interval * 1e9)
        return request

    def _metadata(self) -> list[tuple[str, str]]:
        credential = self._target.credential
        if credential is None:
            return []
        found = []
        for word in ("username", "password"):
            secret = credential.secrets.get(word)
            text = secret.reveal() if secret is not None else credential.options.get(word, "")
            if text:
                found.append((word, text))
        return found

    def _failure(self, code: str, details: str | None) -> PollError:
        text = (details or code).partition("\n")[0]
        return _failure(code, masked(text)[:200])

    def _channel(self, grpc: Any) -> Any:
        """A new channel, with certificates as they are on disk now."""
        options = self._target.options or {}
        # A connection that does not come about is given up within half an interval, too.
        patience = round(1000 * max(_CONNECT_S, self._config.interval_s / 2))
        extra: list[tuple[str, int | str]] = [*_OPTIONS]
        extra.append(("grpc.min_reconnect_backoff_ms", patience))
        if name := options.get("server_name"):
            extra.append(("grpc.ssl_target_name_override", str(name)))
        if options.get("insecure"):
            return grpc.aio.insecure_channel(self._target.address, options=extra)
        credentials = grpc.ssl_channel_credentials(
            self._file("ca"), self._file("key"), self._file("cert")
        )
        return grpc.aio.secure_channel(self._target.address, credentials, options=extra)

    def _file(self, word: str) -> bytes | None:
        credential = self._target.credential
        if credential is None:
            return None
        secret = credential.secrets.get(word)
        if secret is not None:
            return secret.reveal().encode() + b"\n"
        path = credential.options.get(word)
        if not path:
            return None
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise PollError(Reason.PERMISSION, f"{path}: {error.strerror}") from error


_REASONS = {
    "UNAUTHENTICATED": Reason.AUTHENTICATION,
    "PERMISSION_DENIED": Reason.PERMISSION,
    "DEADLINE_EXCEEDED": Reason.TIMEOUT,
    "NOT_FOUND": Reason.NOT_FOUND,
    "UNIMPLEMENTED": Reason.NOT_FOUND,
    "RESOURCE_EXHAUSTED": Reason.LIMIT,
    "UNAVAILABLE": Reason.UNREACHABLE,
    "CANCELLED": Reason.REFUSED,
}


def _failure(code: str, text: str) -> PollError:
    reason = _REASONS.get(code, Reason.UNEXPECTED)
    lowered = text.lower()
    if reason is Reason.UNREACHABLE and ("certificate" in lowered or "handshake" in lowered):
        reason = Reason.AUTHENTICATION
    elif reason is Reason.UNREACHABLE and "refused" in lowered:
        reason = Reason.REFUSED
    return PollError(reason, f"{code.lower()}: {text}")
