"""The heap of a daemon: one for all threads, nothing large in it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
from support import absent


@pytest.fixture(autouse=True)
def _needs_glibc() -> None:
    if platform.libc_ver()[0] != "glibc":
        absent("glibc's allocator")


_THREADS = """\
import ctypes, threading
import numpy as np
from fabricmon.selfmon import keep_compact
print(keep_compact(), flush=True)
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
del_me = np.ones(2 << 20)
del del_me  # by default, whatever is smaller than this is put into a heap from now on
kept, gate = [np.ones(1 << 18)], threading.Barrier(8)
def work():
    gate.wait()
    kept.extend(libc.malloc(100_000) for _ in range(100))
    gate.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def _run(**env: str) -> tuple[str, int, int]:
    """What `keep_compact` said, how many heaps there are, and large pieces outside of them."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    command = [sys.executable, "-c", _THREADS]
    done = subprocess.run(command, env={**own, **env}, capture_output=True, text=True, check=True)
    said, _, info = done.stdout.partition("\n")
    outside = info.rpartition('<total type="mmap" count="')[2]
    return said, info.count("<heap nr="), int(outside.partition('"')[0])


def test_a_daemon_has_one_heap_and_large_arrays_have_pages_of_their_own() -> None:
    """Eight threads share one heap, and an array of two MiB is not in it; else it is."""
    said, heaps, outside = _run()
    assert (said, heaps) == ("True", 1)
    untouched, more, fewer = _run(MALLOC_ARENA_MAX="4")  # the operator's own: it stays
    assert untouched == "False"
    assert more > 1
    assert outside == fewer + 1
