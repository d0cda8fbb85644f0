"""State files: what a restart should not lose, as plain arrays.

One file per fabric, a zip of `.npy` arrays (what `numpy.load` opens), written whole beside the old
one and then put in its place. `about` holds the format's version; `port.*` arrays have one column
per port, `other.*` the rest. Nothing in it is ever pickled, and a broken file is no more than a
cold start.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from fabricmon.errors import FormatError
from fabricmon.model.ports import Saved

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = 1
_PORT, _OTHER, _ABOUT = "port.", "other.", "about"


def write_state(path: Path, saved: Saved) -> None:
    """Put `saved` in the file's place: at any moment there is the old one or the new one.

    Raises `OSError`; the old file stays then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    saved.write(_ABOUT, {"format": "fabricmon-state", "version": _VERSION})
    arrays = {_ABOUT: saved.other.pop(_ABOUT)}
    arrays |= {_PORT + name: array for name, array in saved.ports.items()}
    arrays |= {_OTHER + name: array for name, array in saved.other.items()}
    beside = path.with_name(f"{path.name}.new")
    try:
        with beside.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


def read_state(path: Path) -> Saved | None:
    """What was saved; None where there is no file. Raises `FormatError` where it is broken."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            saved = Saved(other={_ABOUT: arrays[_ABOUT]})
            about = saved.read(_ABOUT)
            if about != {"format": "fabricmon-state", "version": _VERSION}:
                raise FormatError(f"a state file of another kind: {about}", file=str(path))
            return Saved(
                {n.removeprefix(_PORT): arrays[n] for n in arrays if n.startswith(_PORT)},
                {n.removeprefix(_OTHER): arrays[n] for n in arrays if n.startswith(_OTHER)},
            )
    except FileNotFoundError:
        return None
    except _BROKEN as error:
        raise FormatError(f"not a state file: {error!r}", file=str(path)) from error


_BROKEN = (
    OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, MemoryError,
    NotImplementedError, BadZipFile, zlib.error,
)  # fmt: skip
"""What zipfile and numpy raise over bytes that are no such file."""
