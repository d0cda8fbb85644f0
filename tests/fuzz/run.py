"""`make fuzz`: coverage-guided noise for each parser, and what it found worth keeping.

    python tests/fuzz/run.py SECONDS [NAME ...]

Each parser runs in a process of its own under atheris (libFuzzer). Of the inputs that reached new
code some of every length are kept in `corpus/NAME.txt`, which every test run replays; a crash is
written to `crash-*` in the working folder and ends the run with 1.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from base64 import b64encode
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]
_KEPT = 60
"""Inputs of a parser, at the most."""
_LIMITS = ("-timeout=60", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=1")


def child(name: str, folder: str, options: list[str]) -> None:
    """Fuzz one parser in this process; libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["fabricmon"]):
        from fuzz.parsers import PARSERS

    atheris.Setup([sys.argv[0], folder, *options], PARSERS[name])
    atheris.Fuzz()


def _process(name: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, "--child", name, str(folder), *_LIMITS, *options]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)


def fuzz(name: str, seconds: int) -> bool:
    """Fuzz one parser and keep what it found; whether it stood."""
    from fuzz.kept import inputs, path_of
    from fuzz.parsers import PARSERS

    with tempfile.TemporaryDirectory() as scratch:
        grown = Path(scratch)
        for number, data in enumerate((*PARSERS[name].seeds, *inputs(name))):
            (grown / f"seed{number}").write_bytes(data)
        done = _process(name, grown, f"-max_total_time={seconds}")
        figures = [line for line in done.stderr.splitlines() if line.startswith("stat::")]
        print(name, "stood" if done.returncode == 0 else "FELL", *figures, sep="  ", flush=True)
        if done.returncode:
            print(done.stderr[-4000:], file=sys.stderr)
            return False
        found = sorted({path.read_bytes() for path in grown.iterdir()}, key=lambda x: (len(x), x))
        found = found[:: -(-len(found) // _KEPT)]
        path_of(name).write_text("".join(f"{b64encode(data).decode()}\n" for data in found))
    return True


def main(arguments: list[str]) -> int:
    """Every parser that is named, or all of them."""
    from fuzz.parsers import PARSERS

    seconds, names = int(arguments[0]), arguments[1:] or list(PARSERS)
    stood = [fuzz(name, seconds) for name in names]
    return 0 if all(stood) else 1


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(sys.argv[2], sys.argv[3], sys.argv[4:])
    sys.exit(main(sys.argv[1:]))
