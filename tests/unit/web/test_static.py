"""The page's files."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from support.webstate import Served

    Serve = Callable[..., AbstractAsyncContextManager[Served]]

STATIC = files("fabricmon.web") / "static"


def test_vendored_files_are_what_the_list_says() -> None:
    """Each file that is not ours is listed with its hash, and unchanged."""
    rows = re.findall(r"\| (vendor-\S+) \|.*`([0-9a-f]{64})` \|", _text("VENDORED.md"))
    listed = dict(rows)
    there = {entry.name for entry in STATIC.iterdir() if entry.name.startswith("vendor-")}
    assert set(listed) == there - {"vendor-licenses.txt"}
    for name, digest in listed.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest


def test_nothing_comes_from_elsewhere() -> None:
    """No file of ours names another origin, builds HTML from text, or needs a weaker policy."""
    for entry in STATIC.iterdir():
        if entry.name.startswith("vendor-") or entry.name.endswith((".md", ".svg")):
            continue
        text = _text(entry.name)
        assert not re.search(r"https?://", text), entry.name
        for word in ("innerHTML", "dangerouslySet", "eval(", "document.write", ' style="'):
            assert word not in text, (entry.name, word)


async def test_files_are_cached_by_their_content(serve: Serve) -> None:
    """A browser that has a file gets 304; types are right; nothing outside is served."""
    async with serve() as served:
        status, text, headers = await served.get("/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        for name in re.findall(r'(?:src|href)="(/static/[^"]+)"', text):
            status, _, headers = await served.get(name)
            assert status == 200
            again = {"If-None-Match": headers["ETag"]}
            assert (await served.get(name, headers=again))[0] == 304
        for path in ("/static/VENDORED.md", "/static/../server.py", "/static/%2e%2e/server.py"):
            assert (await served.get(path))[0] == 404


async def test_the_page_can_be_turned_off(serve: Serve) -> None:
    """Then `/` is a plain list of links, as other exporters have it."""
    async with serve(enable_status_page=False) as served:
        _, text, _ = await served.get("/")
        assert '<a href="/metrics">' in text
        assert (await served.get("/static/app.js"))[0] == 404


def _text(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
