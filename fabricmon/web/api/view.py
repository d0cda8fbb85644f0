"""Snapshots as the JSON of the API. Arrays are cut down to the rows asked for, then listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.model.incident import rfc3339
from fabricmon.model.ports import NO_PEER, PortRole
from fabricmon.model.readings import State
from fabricmon.model.topology import Role
from fabricmon.model.window import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fabricmon.model.counters import Counter
    from fabricmon.model.frame import Frame
    from fabricmon.model.snapshot import Snapshot, TargetStatus
    from fabricmon.model.topology import PortId
    from fabricmon.model.window import Window
    from fabricmon.web.api.history import Moment

SORTS = ("stall", "score", "press", "tx_use", "rx_use", "name")
_TIER = {Role.HOST: 0, Role.LEAF: 1, Role.SPINE: 2, Role.CORE: 3, Role.UNKNOWN: -1}


def fabric_json(snapshot: Snapshot) -> dict[str, Any]:
    """One fabric in a few numbers."""
    frame = snapshot.frame
    present = snapshot.present[: frame.n_ports]
    stall, values = frame.ratios.stall[present], snapshot.values_by_state()
    return {
        "name": snapshot.fabric,
        "tick": snapshot.tick,
        "time": rfc3339(frame.time_ns),
        "interval_s": frame.interval_s,
        "ports": int(np.count_nonzero(present)),
        "silent_ports": snapshot.silent,
        "nodes": len(snapshot.topology.nodes),
        "links": len(snapshot.topology.links),
        "stalled_ports": int(np.count_nonzero(stall > 0.02)),
        "worst_stall_ratio": float(np.nanmax(stall)) if np.isfinite(stall).any() else None,
        "learning": snapshot.scores.learning,
        "incidents": len(snapshot.incidents),
        "targets": len(snapshot.targets),
        "targets_up": sum(target.up for target in snapshot.targets),
        "jobs": [
            {"name": name, "stalled_gpu_seconds": round(cost, 3)}
            for name, cost in sorted(snapshot.job_cost.items())
        ],
        "values": {state.name.lower(): count for state, count in values.items() if count},
    }


def target_json(status: TargetStatus) -> dict[str, Any]:
    """One target, as the guard sees it."""
    last = status.last_success_ns
    return {
        "fabric": status.fabric,
        "target": status.target,
        "collector": status.collector,
        "up": status.up,
        "last_success_at": rfc3339(last) if last is not None else None,
        "last_duration_s": round(status.last_duration_s, 6),
        "failures": dict(status.failures),
        "last_error": status.last_error,
        "unmatched": dict(status.unmatched),
    }


def pick_rows(snapshot: Snapshot, text: str, device: str, sort: str) -> NDArray[np.intp]:
    """intp[M]: rows of present ports whose name has `text`, worst first (or by name)."""
    frame, table = snapshot.frame, snapshot.table
    rows: NDArray[np.intp] = np.flatnonzero(snapshot.present[: frame.n_ports])
    if device or text:
        ids, low = table.ids, text.lower()
        keep = [
            (not device or ids[row].device == device)
            and (not low or low in f"{ids[row].device} {ids[row].port}".lower())
            for row in rows
        ]
        rows = rows[np.array(keep, np.bool_)]
    if sort == "name":
        return rows[np.argsort([_natural(table.ids[row]) for row in rows], kind="stable")]
    key: NDArray[np.float32] = (
        snapshot.scores.anomaly if sort == "score" else getattr(frame.ratios, sort)
    )
    return rows[np.argsort(-np.nan_to_num(key[rows], nan=-1.0), kind="stable")]


def _natural(name: tuple[str, str]) -> str:
    """Digits padded, so that Ethernet2 comes before Ethernet10."""
    out, number = [], ""
    for char in f"{name[0]}\0{name[1]}\0":
        if char.isdecimal():
            number += char
            continue
        out.append(number.zfill(8) if number else "")
        out.append(char)
        number = ""
    return "".join(out)


def ports_json(snapshot: Snapshot, rows: NDArray[np.intp]) -> list[dict[str, Any]]:
    """What is known of these ports now. None where nothing is."""
    frame, table = snapshot.frame, snapshot.table
    n = frame.n_ports
    ratios = frame.ratios
    columns: dict[str, NDArray[Any]] = {
        "speed_bps": table.speed_bps[:n],
        "stall": ratios.stall,
        "press": ratios.press,
        "tx_use": ratios.tx_use,
        "rx_use": ratios.rx_use,
        "score": snapshot.scores.anomaly[:n],
        "age_s": frame.age_s,
        "estimated": ratios.estimated,
        "alarm": snapshot.scores.alarm[:n],
    }
    cut = {name: _plain(column[rows]) for name, column in columns.items()}
    peers, roles = table.peer[:n][rows].tolist(), table.role[:n][rows].tolist()
    out = []
    for i, row in enumerate(rows.tolist()):
        peer = table.ids[peers[i]] if peers[i] != NO_PEER else None
        out.append(
            {
                "device": table.ids[row].device,
                "port": table.ids[row].port,
                "peer_device": peer.device if peer else None,
                "peer_port": peer.port if peer else None,
                "role": PortRole(roles[i]).name.lower(),
                **{name: values[i] for name, values in cut.items()},
            }
        )
    return out


def port_json(
    snapshot: Snapshot, row: int, window: Window | None, moments: Sequence[Moment]
) -> dict[str, Any]:
    """Everything known of one port, with its recent past."""
    frame, table = snapshot.frame, snapshot.table
    here = ports_json(snapshot, np.array([row], np.intp))[0]
    return {
        **here,
        "fabric": snapshot.fabric,
        "time": rfc3339(frame.time_ns),
        "technology": "infiniband" if table.infiniband[row] else "ethernet",
        "why": list(snapshot.scores.why.get(row, ())),
        "stall_low": _number(frame.ratios.stall_low[row]),
        "stall_high": _number(frame.ratios.stall_high[row]),
        "counters": list(_counters(frame, row)),
        "gauges": {
            **{name: _number(level[row]) for name, level in sorted(frame.gauges.items())},
            **{
                f"{name}[{queue}]": _number(level[row, q])
                for name, level in sorted(frame.queue_gauges.items())
                for q, queue in enumerate(frame.queues)
            },
        },
        "signals": _signals(window, row),
        "rates": _rates(moments, table.ids[row]),
    }


def _counters(frame: Frame, row: int) -> Iterator[dict[str, Any]]:
    """Every counter of a port, then every one of its queues."""
    for k, counter in enumerate(frame.counters):
        read = frame.total[k, row], frame.rate[k, row], frame.state[k, row]
        yield _counter(counter, None, *read)
    for k, counter in enumerate(frame.queue_counters):
        for q, queue in enumerate(frame.queues):
            at = k, row, q
            read = frame.queue_total[at], frame.queue_rate[at], frame.queue_state[at]
            yield _counter(counter, queue, *read)


def _counter(
    counter: Counter, queue: int | None, total: Any, rate: Any, state: Any
) -> dict[str, Any]:
    return {
        "counter": counter.id,
        "queue": queue,
        "unit": counter.unit,
        "help": counter.help,
        "total": _total(total, state),
        "rate": _number(rate),
        "state": State(int(state)).name.lower(),
    }


def _total(total: Any, state: Any) -> int | None:
    """The count, None where there is none: a zero would claim that nothing happened."""
    return None if state in (State.MISSING, State.UNSUPPORTED) else int(total)


def _signals(window: Window | None, row: int) -> dict[str, Any]:
    """The pipeline's own short past: `times` (s) and one list a signal that is known at all."""
    if window is None or not len(window):
        return {"times": []}
    out: dict[str, Any] = {"times": (window.times() / 1e9).tolist()}
    for name, values in zip(SIGNALS, window.of_port(row), strict=True):
        if np.isfinite(values).any():
            out[name] = _plain(values)
    return out


def _rates(moments: Sequence[Moment], port: PortId) -> dict[str, Any]:
    """Rates a second of every counter, where frames are still held."""
    frames = [
        (m.frame, row)
        for m in moments
        if m.frame is not None
        and m.table is not None
        and (row := m.table.row(port)) is not None
        and row < m.frame.n_ports
    ]
    series: dict[str, list[float | None]] = {}
    for i, (frame, row) in enumerate(frames):
        for k, counter in enumerate(frame.counters):
            line = series.setdefault(counter.id, [None] * len(frames))
            line[i] = _number(frame.rate[k, row])
        for k, counter in enumerate(frame.queue_counters):
            for q, queue in enumerate(frame.queues):
                line = series.setdefault(f"{counter.id}[{queue}]", [None] * len(frames))
                line[i] = _number(frame.queue_rate[k, row, q])
    known = {name: line for name, line in series.items() if any(v is not None for v in line)}
    return {"times": [frame.time_ns / 1e9 for frame, _ in frames], **known}


def topology_json(snapshot: Snapshot) -> dict[str, Any]:
    """Nodes with their tier (0 host … 3 core, -1 unknown), links as [node, port, node, port]."""
    topology = snapshot.topology
    nodes = {node.name: (node.kind, _TIER[node.role]) for node in topology.nodes}
    nodes = {name: (kind, 0 if kind == "host" else tier) for name, (kind, tier) in nodes.items()}
    for device in snapshot.table.nodes:
        nodes.setdefault(device, ("unknown", -1))
    index = {name: i for i, name in enumerate(nodes)}
    links = [
        [index[link.a.device], link.a.port, index[link.b.device], link.b.port]
        for link in topology.links
        if link.a.device in index and link.b.device in index
    ]
    return {
        "fabric": snapshot.fabric,
        "nodes": [[name, kind, tier] for name, (kind, tier) in nodes.items()],
        "links": links,
        "jobs": [
            {"name": job.name, "hosts": list(job.hosts), "gpus_per_host": job.gpus_per_host}
            for job in topology.jobs
        ],
    }


def moment_json(snapshot: Snapshot, moment: Moment, limit: int = 2000) -> dict[str, Any]:
    """What was held back at one tick, hardest first, and the incidents of that tick."""
    order = np.argsort(-moment.stall, kind="stable")[:limit]
    return {
        "fabric": snapshot.fabric,
        "tick": moment.tick,
        "time": rfc3339(moment.time_ns),
        "stalled": [
            [*moment.names[at], round(float(moment.stall[at]), 4)] for at in order.tolist()
        ],
        "stalled_ports": len(moment.rows),
        "incidents": moment.incidents(),
    }


def timeline_json(fabric: str, moments: Sequence[Moment]) -> dict[str, Any]:
    """One number of each kind per tick, oldest first."""
    return {
        "fabric": fabric,
        "ticks": [m.tick for m in moments],
        "times": [m.time_ns / 1e9 for m in moments],
        "worst_stall_ratio": [round(m.worst, 4) for m in moments],
        "stalled_ports": [len(m.rows) for m in moments],
        "incidents": [m.n_incidents for m in moments],
    }


def _number(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None


def _plain(values: NDArray[Any]) -> list[Any]:
    """A list in which what is not a number is None."""
    if values.dtype.kind != "f":
        return list(values.tolist())
    finite = np.isfinite(values).tolist()
    return [round(v, 6) if ok else None for v, ok in zip(values.tolist(), finite, strict=True)]
