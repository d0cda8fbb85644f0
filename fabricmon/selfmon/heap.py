"""How glibc keeps the memory that a daemon frees.

By default each thread may get a heap of its own, and whatever is as large as something that was
freed before is put into a heap, not into pages of its own. Arrays of every size then come and go
between what stays, in many heaps: in a day of polls half of the memory was such holes.
"""

from __future__ import annotations

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""`mallopt(3)`'s numbers."""
_LARGE = 1 << 20
"""Bytes from which an array has pages of its own, which go back when it is freed."""


def keep_compact() -> bool:
    """One heap for all threads, and large arrays outside of it. Best before any thread starts.

    False where there is nothing to set: another C library, or the operator's own `MALLOC_*`.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    orders = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LARGE))
    return all(mallopt(what, value) == 1 for what, value in orders)
