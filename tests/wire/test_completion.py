"""Completion in a real bash, set up as docs/cli.md says."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from support import ROOT, require
from support.daemon import FABRICMON

pytestmark = pytest.mark.wire

_ASK = """\
{setup}
COMP_WORDS=({words}) COMP_CWORD={last}
"$(complete -p fabricmon | sed 's/.*-F \\([^ ]*\\) .*/\\1/')" fabricmon
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("fabricmon rep", {"replay", "report"}),
        ("fabricmon report -o m", {"md"}),
        ("fabricmon simulate pfc-s", {"pfc-storm"}),
        ("fabricmon run --web.li", {"--web.listen-address"}),
    ],
)
def test_bash_completes(typed: str, offered: set[str]) -> None:
    """Commands, options, choices and scenarios."""
    page = (ROOT / "docs/cli.md").read_text()
    setup = re.search(r"^\$ (eval .*bash_source.*)$", page, re.MULTILINE)
    assert setup is not None
    script = _ASK.format(setup=setup[1], words=typed, last=typed.count(" "))
    done = subprocess.run(
        [require("bash"), "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{Path(FABRICMON).parent}:{os.environ['PATH']}"},
    )
    assert done.stderr == ""
    assert set(done.stdout.split()) == offered
