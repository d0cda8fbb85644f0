"""What every plug-in promises (see `api`), as checks a test can call.

Outside plug-ins use them too::

    async def test_my_collector_keeps_its_promises() -> None:
        await check_collector(lambda: MyCollector(MyConfig(), [target], context), target)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.errors import PollError
from fabricmon.model.readings import Poll
from fabricmon.model.window import Window
from fabricmon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fabricmon.api import Collector, Component, Detector, Exporter, Rule, Target
    from fabricmon.model.frame import Frame
    from fabricmon.model.ports import PortTable
    from fabricmon.model.snapshot import Scores
    from fabricmon.model.topology import Topology

_STOP_S = 1.0


async def check_lifecycle(make: Callable[[], Component]) -> None:
    """Stop without start, start and stop, stop twice, start again."""
    await asyncio.wait_for(make().stop(), _STOP_S)
    component = make()
    for _ in range(2):
        await component.start()
        await asyncio.wait_for(component.stop(), _STOP_S)
    await asyncio.wait_for(component.stop(), _STOP_S)


def _check_config(component: object) -> None:
    config = getattr(type(component), "Config", None)
    assert isinstance(config, type), f"{type(component).__name__} declares no Config"
    assert issubclass(config, Settings), f"{config.__name__} is not built on Settings"


async def check_collector(make: Callable[[], Collector], target: Target) -> None:
    """A poll gives a `Poll` or raises `PollError`, and can be cancelled at any time."""
    _check_config(make())
    await check_lifecycle(make)
    collector = make()
    await collector.start()
    try:
        try:
            poll = await collector.poll(target)
        except PollError as error:
            assert str(error), "a PollError explains itself"  # noqa: PT017
        else:
            assert isinstance(poll, Poll)
            for batch in poll.batches:
                assert batch.target == target.name
        task = asyncio.ensure_future(collector.poll(target))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=_STOP_S)
        assert task.done(), "a cancelled poll ends"
        if not task.cancelled():
            task.exception()
    finally:
        await collector.stop()


async def check_exporter(make: Callable[[], Exporter]) -> None:
    """The lifecycle holds and the config is declared."""
    _check_config(make())
    await check_lifecycle(make)


def check_detector(
    make: Callable[[], Detector], frames: Sequence[Frame], table: PortTable, topology: Topology
) -> None:
    """Every port has a score of 0..1 or none, and the same frames give the same scores twice."""
    _check_config(make())
    for first, again in zip(
        _scores(make(), frames, table, topology),
        _scores(make(), frames, table, topology),
        strict=True,
    ):
        known = first.anomaly[~np.isnan(first.anomaly)]
        assert first.anomaly.shape == first.alarm.shape == (len(table),)
        assert ((known >= 0) & (known <= 1)).all(), "a score is 0..1"
        assert np.array_equal(first.anomaly, again.anomaly, equal_nan=True), "scores repeat"
        assert np.array_equal(first.alarm, again.alarm), "alarms repeat"


def _scores(
    detector: Detector, frames: Iterable[Frame], table: PortTable, topology: Topology
) -> list[Scores]:
    window, scores = Window(), []
    for frame in frames:
        window.push(frame)
        scores.append(detector.score(window, table, topology))
        detector.feedback(())
    return scores


def check_rule(rule: type[Rule], kind: str) -> None:
    """It goes by the name of its entry point, explains itself, and is built from nothing."""
    assert rule.kind == kind, f"{rule.__name__} is of kind {rule.kind!r}, installed as {kind!r}"
    for name in ("signature", "discriminator", "advice", "limits"):
        text = getattr(rule, name, "")
        assert isinstance(text, str), f"{kind}: {name} is not text"
        assert text.strip(), f"{kind}: {name} says nothing"
    assert callable(rule().findings)
