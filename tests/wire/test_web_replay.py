"""`fabricmon replay --serve`: a recorded run, scrubbed through in the browser."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.chromium import chromium

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]


async def test_a_replay_is_scrubbed_through(tmp_path: Path) -> None:
    """The page shows the fault at its ticks and a calm fabric before it; Ctrl-C ends it."""
    dump = tmp_path / "dump"
    make = [sys.executable, "-m", "fabricmon", "simulate", "incast", "--duration", "140s"]
    await asyncio.to_thread(subprocess.run, [*make, "--write", str(dump)], check=True)
    replay = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fabricmon", "replay", str(dump), "--serve", "127.0.0.1:0"),
        *("-o", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert replay.stderr is not None
        assert replay.stdout is not None
        said = (await replay.stderr.readline()).decode()
        url = re.search(r"http://\S+", said)
        assert url is not None, said
        printed = await replay.stdout.readuntil(b"\n]\n")
        assert b'"kind": "incast"' in printed
        async with chromium(tmp_path) as page:
            await page.size(1300, 900)
            await page.goto(url[0])
            slider = "document.querySelector('input[type=range]')"
            await page.until(f"!!{slider}")
            count = int(await page.eval(f"{slider}.max")) + 1
            incidents = await page.eval(
                "fetch('/api/v1/timeline').then((r) => r.json()).then((t) => t.incidents)"
            )
            assert len(incidents) == count
            first = next(i for i, number in enumerate(incidents) if number)
            await page.eval(f"{slider}.focus()")
            for tick, shown in ((first, "at leaf"), (0, "No incident.")):
                script = f"{slider}.value = {tick}; {slider}.dispatchEvent(new Event('input'))"
                await page.eval(script)
                await page.until(
                    f"document.querySelector('.verdict').innerText.includes('{shown}')"
                )
            assert page.errors == []
    finally:
        replay.terminate()
        assert await asyncio.wait_for(replay.wait(), 10) == 0
