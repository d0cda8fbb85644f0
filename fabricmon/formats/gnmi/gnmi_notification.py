"""Notifications as they come off the wire, into samples.

Paths are looked up by their serialized bytes, so that a path that was seen before costs one
dictionary look-up and no text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabricmon.formats.gnmi import gnmi_json, gnmi_path, gnmic
from fabricmon.formats.gnmi.gnmi_path import Element
from fabricmon.formats.gnmi.gnmi_proto import messages
from fabricmon.formats.gnmi.gnmi_record import LONGEST
from fabricmon.formats.gnmi.gnmi_wire import WireForms
from fabricmon.formats.lines.series_table import UNMAPPED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fabricmon.formats.gnmi.gnmi_record import Recorder

_MAX_PATHS = 500_000
_JSON = ("json_ietf_val", "json_val")


class NotificationReader:
    """Reads the stream of one target."""

    def __init__(self, recorder: Recorder, device: str, asked: str = "") -> None:
        """`device` names the target where a notification's prefix does not.

        `asked` is what the device was asked for by; a prefix that repeats it names nobody.
        """
        self._recorder = recorder
        self._asked = asked
        self._samples = recorder.samples
        self._device = device
        # By prefix, by path: twice the series of a count, -1 for what is not mapped.
        self._counts: dict[bytes, dict[bytes, int]] = {}
        # The same for the rest: the series of a gauge, or those of a JSON subtree's leaves by name.
        self._others: dict[bytes, dict[bytes, int | dict[str, int]]] = {}
        self._paths = 0  # in both, prefixes included
        self._wire = WireForms(self._samples)
        self._response = messages().SubscribeResponse

    def forget(self) -> None:
        """Series have other numbers now: everything is looked up anew."""
        self._counts.clear()
        self._others.clear()
        self._paths = 0
        self._wire = WireForms(self._samples)

    def take_raw(self, raw: bytes, received_ns: int) -> bool:
        """Take a SubscribeResponse as it came. True for the end of a complete answer.

        Raises `ValueError` where it is none.
        """
        if self._wire.take(raw):
            return False
        try:
            message = self._response.FromString(raw)
        except messages().DecodeError as error:
            raise ValueError("no SubscribeResponse") from error
        if message.HasField("update"):
            self.take(message.update, received_ns)
            self._wire.learn(raw, message.update, self._code_of(message.update.prefix))
        return bool(message.sync_response)

    def _code_of(self, prefix: Any) -> Callable[[Any], int | None]:
        counts = self._counts.get(prefix.SerializeToString(), {})

        def code(update: Any) -> int | None:
            count = update.val.WhichOneof("value") == "uint_val"
            return counts.get(update.path.SerializeToString()) if count else None

        return code

    def take(self, notification: Any, received_ns: int) -> None:
        """Take one notification; its deletes end series."""
        prefix = notification.prefix
        key = prefix.SerializeToString()
        counts = self._counts.get(key)
        if counts is None and len(key) <= LONGEST:
            self._make_room()
            counts = self._counts[key] = {}
        elif counts is None:
            counts = {}
        samples = self._samples
        codes, digits = samples.codes, samples.digits
        for update in notification.update:
            value = update.val
            code = counts.get(update.path.SerializeToString())
            if code is not None and ((count := value.uint_val) or value.HasField("uint_val")):
                codes.append(code)
                digits.append(b"%d" % count)
            else:
                self._odd(key, prefix, update)
        samples.stamp(notification.timestamp or received_ns)
        for path in notification.delete:
            self._recorder.end(self.device(prefix), [*elements(prefix), *elements(path)])

    def device(self, prefix: Any) -> str:
        """Who speaks."""
        target = prefix.target
        return self._device if target in ("", self._asked) else self._recorder.device_of(target)

    def _odd(self, key: bytes, prefix: Any, update: Any) -> None:
        """Everything that is not a count of a known path."""
        path, kind = update.path, update.val.WhichOneof("value") or ""
        if kind in _JSON:
            value = gnmi_json.loads(getattr(update.val, kind), lenient=True)
        else:
            value = _exact(scalar(update.val, kind) if kind else _deprecated(update))
        if isinstance(value, dict) and kind in _JSON:
            self._subtree(key, prefix, path, value)
        elif isinstance(value, dict | list):
            self._resolve_all(prefix, path, value)
        else:
            series = self._others.get(key, {}).get(path.SerializeToString())
            if not isinstance(series, int):
                series = self._learn(key, prefix, path, value)
            if series != UNMAPPED:
                self._samples.put(series, value)

    def _learn(self, key: bytes, prefix: Any, path: Any, value: object) -> int:
        steps = [*elements(prefix), *elements(path)]
        series = self._recorder.resolve(self.device(prefix), steps, value)
        if series is None:
            return UNMAPPED
        kept = self._remember(key, path, series)
        if kept and (series == UNMAPPED or self._samples.table.gauges[series] is None):
            code = UNMAPPED if series == UNMAPPED else 2 * series
            self._counts.setdefault(key, {})[path.SerializeToString()] = code
        return series

    def _subtree(self, key: bytes, prefix: Any, path: Any, value: dict[str, Any]) -> None:
        """A JSON object: cheap where all its members are leaves that were seen before."""
        known = self._others.get(key, {}).get(path.SerializeToString())
        if not isinstance(known, dict):
            known = {}
            self._remember(key, path, known)
        samples = self._samples
        for name, leaf in value.items():
            series = known.get(name)
            if series is None:
                if isinstance(leaf, dict | list):
                    self._resolve_all(prefix, path, {name: leaf})
                    continue
                step = Element(gnmi_path.bare(name), {})
                steps = [*elements(prefix), *elements(path), step]
                series = self._recorder.resolve(self.device(prefix), steps, leaf)
                if series is None:
                    continue
                known[name] = series
            if series >= 0:
                samples.put(series, leaf)

    def _resolve_all(self, prefix: Any, path: Any, value: object) -> None:
        steps = [*elements(prefix), *elements(path)]
        self._recorder.put_readings(self.device(prefix), gnmic.leaves(steps, value))

    def _remember(self, key: bytes, path: Any, what: int | dict[str, int]) -> bool:
        """Keep what a path is, unless somebody fills memory with long ones."""
        written = path.SerializeToString()
        kept = len(key) + len(written) <= LONGEST
        if kept:
            self._make_room()
            self._others.setdefault(key, {})[written] = what
        return kept

    def _make_room(self) -> None:
        """One more path or prefix is to be remembered."""
        if self._paths >= _MAX_PATHS:
            self.forget()
        self._paths += 1


def elements(path: Any) -> list[Element]:
    """The elements of a wire path, module prefixes off; keys without an element go before."""
    steps: list[Element] = []
    for part in path.elem:
        keys = {gnmi_path.bare(key): value for key, value in part.key.items()}
        name = gnmi_path.bare(part.name)
        if name:
            steps.append(Element(name, keys))
        elif steps:
            steps[-1] = Element(steps[-1].name, {**steps[-1].keys, **keys})
    for text in path.element:
        steps.extend(gnmi_path.split(text))
    return steps


def scalar(value: Any, kind: str) -> object:
    """The plain value of a TypedValue."""
    inner = getattr(value, kind)
    if kind == "decimal_val":
        digits, precision = inner.digits, inner.precision
        return digits / 10**precision if 0 < precision <= 18 else digits
    if kind == "leaflist_val":
        return [scalar(entry, entry.WhichOneof("value") or "string_val") for entry in inner.element]
    return inner


def _deprecated(update: Any) -> object:
    """The value of servers that still fill the field before `val`."""
    return gnmi_json.loads(update.value.value, lenient=True)


def _exact(value: object) -> object:
    """Integers of the wire are exact, however large; as text they are not taken for rounded."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def write_path(steps: Iterable[Element], path: Any) -> Any:
    """Fill a wire path."""
    for name, keys in steps:
        elem = path.elem.add(name=name)
        for key, text in keys.items():
            elem.key[key] = text
    return path
