"""The daemon computes forests in a thread of its own; a tick only fetches what is ready."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

from support.windows import Stage, star

from fabricmon.detect import ForestConfig, ForestDetector

if TYPE_CHECKING:
    from collections.abc import Callable

_CONFIG = ForestConfig(trees=10)


class Shelf(Executor):
    """Takes work and leaves it lying until told."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Keep it for `work`."""
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def work(self) -> None:
        """Do what is there."""
        for future, job in self.waiting:
            future.set_result(job())
        self.waiting.clear()


def test_no_tick_fits_a_forest_itself() -> None:
    """Ticks hand the fit over and go on; its forests are in use at the swap, and not before."""
    shelf = Shelf()
    stage = Stage(lambda context: ForestDetector(_CONFIG, context), star())
    stage.detector.fit_with(shelf)  # type: ignore[attr-defined]
    ticks = 0
    while not shelf.waiting:
        assert stage.healthy(1)[0].learning
        ticks += 1
        assert ticks < 200, "a fit becomes due"
    between = stage.healthy(_CONFIG.swap_polls - 1)
    assert all(scores.learning for scores in between)
    assert len(shelf.waiting) == 1, "nobody computed it meanwhile"
    shelf.work()
    assert not stage.healthy(2)[-1].learning
