"""What the page remembers, and what it costs."""

from __future__ import annotations

from support.snapshots import make_frame, make_incident, make_snapshot, make_table

from fabricmon.model.incident import IncidentState
from fabricmon.web.api.history import History, frame_bytes, moment_of


def test_frames_are_given_up_oldest_first() -> None:
    """Beyond the budget the oldest ticks lose their frame, and keep what is drawn."""
    table = make_table([("a", str(i)) for i in range(50)])
    frames = [make_frame(50, stall=[0.5] * 50) for _ in range(6)]
    history = History(3 * frame_bytes(frames[0]))
    for tick, frame in enumerate(frames):
        history.add(make_snapshot(table, frame, tick=tick))
    moments = history.moments("pod1")
    assert [moment.frame is None for moment in moments] == [True] * 3 + [False] * 3
    assert [len(moment.rows) for moment in moments] == [50] * 6


def test_one_frame_always_stays() -> None:
    """Where the budget holds not even one, the latest tick can be plotted all the same."""
    history = History(frame_bytes(make_frame(1)) - 1)
    for tick in range(3):
        history.add(make_snapshot(make_table([("a", "1")]), make_frame(1), tick=tick))
    assert [m.frame is None for m in history.moments("pod1")] == [True, True, False]


def test_ticks_are_given_up_where_there_are_many_incidents() -> None:
    """A bad hour costs no more memory than a good one: it is remembered less far back."""
    table = make_table([("a", "1")])
    bad = [make_incident(id=f"{i:012x}", advice="x" * i) for i in range(200)]
    size = moment_of(make_snapshot(table, make_frame(1), incidents=bad)).size
    history = History(4 * 10 * size)
    for tick in range(50):
        history.add(make_snapshot(table, make_frame(1), tick=tick, incidents=bad))
    moments = history.moments("pod1")
    assert [m.tick for m in moments] == list(range(40, 50))
    assert [one["id"] for one in moments[0].incidents()] == [one.id for one in bad]
    assert moments[0].n_incidents == 200


def test_the_latest_tick_always_stays() -> None:
    """However small the budget, there is a now."""
    history = History(0)
    for tick in range(3):
        history.add(make_snapshot(make_table([("a", "1")]), make_frame(1), tick=tick))
    assert [moment.tick for moment in history.moments("pod1")] == [2]


def test_closed_incidents_are_kept_to_a_limit() -> None:
    """A thousand of the latest, latest first."""
    history = History(1 << 20)
    table = make_table([("a", "1")])
    for tick in range(1100):
        closed = make_incident(id=str(tick), state=IncidentState.CLOSED)
        history.add(make_snapshot(table, make_frame(1), tick=tick, closed=[closed]))
    assert [one["id"] for one in history.closed()] == [str(i) for i in range(1099, 99, -1)]


def test_a_fabric_that_is_gone_is_forgotten() -> None:
    """After a reload took it away."""
    history = History(1 << 20)
    history.add(make_snapshot(make_table([("a", "1")]), make_frame(1)))
    history.retain({"pod2"})
    assert history.moments("pod1") == []
