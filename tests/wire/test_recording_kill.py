"""A recording survives the death of its writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fabricmon.model.readings import ReadingBatch
from fabricmon.model.stream import Tick
from fabricmon.record import Recording

if TYPE_CHECKING:
    from pathlib import Path

    from fabricmon.api import Context

pytestmark = pytest.mark.wire

WRITER = """
import sys
from pathlib import Path
import numpy as np
from fabricmon.clock import SystemClock
from fabricmon.model.counters import BY_ID
from fabricmon.model.readings import Column, PortSet, ReadingBatch
from fabricmon.model.stream import Tick
from fabricmon.record import Writer
from fabricmon.selfmon import Reporter

ports = PortSet(("sw",) * 500, tuple(map(str, range(500))))
columns = tuple(Column(BY_ID[name]) for name in ("rx_bytes", "tx_bytes", "rx_packets"))
writer = Writer(Path(sys.argv[1]), "lab", Reporter(SystemClock()), rotate_s=40)
for i in range(1_000_000):
    values = np.full((3, 500), i, np.uint64)
    stamps = np.full(500, i * 10**9)
    writer.write(ReadingBatch("sw", ports, columns, values, np.zeros((3, 500), np.uint8), stamps))
    writer.write(Tick(i * 10**9, 1.0))
    print(i, flush=True)
"""


@pytest.mark.parametrize("ticks", [0, 3, 57, 100])
def test_every_confirmed_tick_survives_kill(ticks: int, tmp_path: Path, context: Context) -> None:
    """After kill -9 at any moment all ticks whose write returned are there, whole and in order."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    confirmed = 0
    for line in writer.stdout:
        confirmed = int(line)
        if confirmed >= ticks:
            break
    os.kill(writer.pid, signal.SIGKILL)
    rest = writer.stdout.read()
    writer.stdout.close()
    writer.wait()
    whole_lines = rest[: rest.rfind("\n") + 1].split()
    confirmed = int(whole_lines[-1]) if whole_lines else confirmed
    items = list(Recording([tmp_path], context.report).items())
    seen = [item.time_ns // 10**9 for item in items if isinstance(item, Tick)]
    assert seen == list(range(len(seen)))
    assert confirmed < len(seen) <= confirmed + 3
    for number, batch in enumerate(item for item in items if isinstance(item, ReadingBatch)):
        assert np.all(batch.values == number)


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
"""


def test_files_that_may_not_grow_cost_one_tick_each(tmp_path: Path, context: Context) -> None:
    """The kernel refuses to let a file grow: the tick is lost, the next file goes on."""
    noisy = (
        WRITER.replace(
            "np.full((3, 500), i, np.uint64)",
            "np.random.default_rng(i).integers(0, 2**60, (3, 500), np.uint64)",
        )
        .replace("range(1_000_000)", "range(60)")
        .replace("rotate_s=40", "rotate_s=1e6")
    )
    done = subprocess.run(
        [sys.executable, "-c", LIMITED + noisy, str(tmp_path)], capture_output=True, check=True
    )
    assert done.stdout.split()[-1] == b"59"
    files = sorted(tmp_path.iterdir())
    assert len(files) > 3
    assert all(file.stat().st_size <= 100_000 for file in files)
    items = list(Recording([tmp_path], context.report).items())
    seen = [item.time_ns // 10**9 for item in items if isinstance(item, Tick)]
    assert seen == sorted(set(seen))
    assert len(seen) >= 60 - len(files)
    first = next(item for item in items if isinstance(item, ReadingBatch))
    expected = np.random.default_rng(0).integers(0, 2**60, (3, 500), np.uint64)
    assert np.array_equal(first.values, expected)
