"""The four questions of a person on call, answered from an incident's JSON.

Is it the fabric, which port started it, who suffers, what to do. The formats only lay these out.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Incident = Mapping[str, Any]

_WHOSE = {
    "fabric": "Yes, it is the fabric.",
    "host": "No, it is a host; the fabric only passes it on.",
    "config": "It is the configuration of the fabric.",
    "telemetry": "Unknown: it is the telemetry itself.",
    "not-fabric": "No, it is not the fabric.",
}
_SHOWN = 5
_SYMBOLS = {"bytes": "B", "bytes/s": "B/s", "bits": "b", "bits/s": "b/s"}
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def plain(text: object) -> str:
    """A device's name without what would move a terminal's cursor."""
    return "".join(c if unicodedata.category(c)[0] != "C" else "�" for c in str(text))


def port_text(place: Mapping[str, Any] | None) -> str:
    """`device [port]`; the device alone where all of it is meant."""
    if place is None:
        return "no port can be named"
    device = plain(place["device"])
    return f"{device} [{plain(place['port'])}]" if place.get("port") else device


def percent(ratio: float) -> str:
    """A share, as people say it."""
    return f"{ratio * 100:.1f} %" if ratio < 0.1 else f"{ratio * 100:.0f} %"


def scaled(value: float, unit: str) -> str:
    """Three digits and a prefix; a unit that is a word stands apart: `34 k packets/s`."""
    power = 0
    while abs(value) >= 1000 and power < len(_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    prefix, unit = _PREFIXES[power], _SYMBOLS.get(unit, unit)
    apart = " " if prefix and len(unit) > 3 else ""
    return f"{value:.3g} {prefix}{apart}{unit}".rstrip()


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    for size, unit in ((7200, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds / (3600 if unit == 'h' else 60):.3g} {unit}"
    return f"{seconds:.3g} s"


def clock(stamp: str | None) -> str:
    """An RFC 3339 time, to the second."""
    return f"{stamp[:10]} {stamp[11:19]} UTC" if stamp else "now"


def verdict_line(incidents: Sequence[Incident]) -> str:
    """One line over everything: whose it is, what, where, and how many suffer."""
    if not incidents:
        return "No incident: nothing says that it is the fabric."
    worst = incidents[0]
    count = len(worst["victims"])
    held = f"{count} port{'s are' if count != 1 else ' is'} held back"
    reason = f" ({plain(worst['reason'])})" if worst["reason"] else ""
    where = port_text(worst["cause"])
    return f"{_WHOSE[worst['verdict']]} {worst['kind']}{reason} at {where}; {held}."


def title(incident: Incident) -> str:
    """Kind and place."""
    reason = f" ({plain(incident['reason'])})" if incident["reason"] else ""
    return f"{incident['kind']}{reason} at {port_text(incident['cause'])}"


def answers(incident: Incident) -> list[tuple[str, str]]:
    """(question, answer), what matters first."""
    out = [
        ("Is it the fabric?", _WHOSE[incident["verdict"]]),
        ("Who started it?", _cause(incident)),
        ("Who suffers?", _victims(incident)),
        ("What to do?", plain(incident["advice"]) or "No advice."),
        ("When?", f"{clock(incident['started_at'])} to {clock(incident['ended_at'])}"),
        ("At what cost?", _cost(incident)),
    ]
    return out + [("How is it known?", evidence_text(one)) for one in incident["evidence"]]


def evidence_text(one: Mapping[str, Any]) -> str:
    """One number that can be checked by hand."""
    value = _measured(one["value"], one["unit"])
    healthy = f"; healthy: {plain(one['expected'])}" if one["expected"] else ""
    source = f"; from {plain(one['source'])}" if one["source"] else ""
    where = f" at {port_text(one)}" if one["device"] else ""
    how = f"; {plain(one['formula'])}" if one["formula"] else ""
    counted = "".join(map(_counted, one["raw"]))
    return f"{plain(one['counter'])}{where}: {value}{healthy}{source}{how}{counted}"


def _counted(raw: Mapping[str, Any]) -> str:
    """What a counter showed first and last of the samples behind a number."""
    known = [sample for sample in raw["samples"] if sample["value"] is not None]
    if not known:
        return ""
    name = raw["counter"] if raw["queue"] is None else f"{raw['counter']}[{raw['queue']}]"
    shown = [f"{sample['value']:.15g} at {sample['at'][11:23]}" for sample in (known[0], known[-1])]
    return f"; {plain(name)} {' to '.join(dict.fromkeys(shown))} ({plain(raw['unit'])})"


def _measured(value: float, unit: str) -> str:
    """`16.6 % of time` for shares, prefixes for the rest."""
    if unit == "ratio" or unit.startswith("share"):
        return f"{percent(value)} {plain(unit.removeprefix('ratio').removeprefix('share'))}".strip()
    return scaled(value, plain(unit))


def _cause(incident: Incident) -> str:
    cause = incident["cause"]
    if cause is None:
        return "No port can be named."
    queue = f", queue {cause['queue']}" if cause["queue"] is not None else ""
    other = {"device": cause["peer_device"], "port": cause["peer_port"]}
    peer = f", at the other end {port_text(other)}" if cause["peer_device"] else ""
    return f"{port_text(cause)}{queue}{peer} (confidence {percent(incident['confidence'])})"


def _money(job: Mapping[str, Any]) -> str:
    """What the GPU time cost, where there is a price."""
    return f" (cost {job['cost']:.2f})" if "cost" in job else ""


def _victims(incident: Incident) -> str:
    victims = sorted(incident["victims"], key=lambda one: -one["stall_ratio"])
    if not victims:
        return "No port is held back."
    named = [f"{port_text(one)} {percent(one['stall_ratio'])}" for one in victims[:_SHOWN]]
    more = f" and {len(victims) - _SHOWN} more" if len(victims) > _SHOWN else ""
    count = f"{len(victims)} port{'s' if len(victims) != 1 else ''}"
    return f"{count}, by share of time held back: {', '.join(named)}{more}"


def _cost(incident: Incident) -> str:
    jobs = [
        f"{plain(job['name'])} lost {duration(job['stalled_gpu_seconds'])} of GPU time{_money(job)}"
        for job in incident["jobs"]
    ]
    bytes_ = f"{scaled(incident['lost_bytes'], 'B')} not sent"
    return "; ".join([*jobs, bytes_, f"{duration(incident['stalled_port_seconds'])} of port time"])
