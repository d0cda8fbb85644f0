"""A real headless Chromium, driven over its DevTools protocol: just what the page tests need."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

from support import require

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Home": 36,
    "End": 35,
}


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Talk over `socket`."""
        self._socket = socket
        self._count = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.errors: list[str] = []
        """What the console complained of, and exceptions nobody caught."""

    def _note(self, method: str, params: dict[str, Any]) -> None:
        """Keep what somebody should know of."""
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:600])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.errors.append(json.dumps(params["args"])[:600])

    async def listen(self) -> None:
        """Sort what comes: answers to commands, and events worth keeping."""
        async for message in self._socket:
            data = json.loads(message.data)
            if "id" in data:
                self._answers.pop(data["id"]).set_result(data)
            else:
                self._note(data["method"], data["params"])

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command."""
        self._count += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[self._count] = answer
        await self._socket.send_json({"id": self._count, "method": method, "params": params})
        data = await asyncio.wait_for(answer, 20)
        assert "error" not in data, data
        result: dict[str, Any] = data["result"]
        return result

    async def eval(self, script: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = await self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def goto(self, url: str) -> None:
        """Open a page."""
        await self.send("Page.navigate", url=url)

    async def until(self, script: str, timeout_s: float = 30.0) -> Any:
        """Wait until the expression is true, and give its value."""
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    found = await self.eval(script)
                except AssertionError:  # the page is on its way to another document
                    found = None
                if found:
                    return found
                await asyncio.sleep(0.03)

    async def text(self) -> str:
        """All text of the page, as a reader sees it."""
        return str(await self.eval("document.body.innerText"))

    async def press(self, key: str) -> None:
        """Press and release a key."""
        code = _KEYS.get(key, ord(key[0].upper()))
        typed = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            extra = typed if kind == "keyDown" else {}
            await self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **extra
            )

    async def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """The window, and what the system prefers."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Page]:
    """One tab of a fresh browser whose profile is under `folder`."""
    profile = folder / "chromium"
    process = await asyncio.create_subprocess_exec(
        require("chromium"),
        *_FLAGS,
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder)},
        start_new_session=True,
    )
    try:
        port = await _port(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = await answer.json(content_type=None)
            tab = next(tab for tab in tabs if tab["type"] == "page")
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                listening = asyncio.ensure_future(page.listen())
                try:
                    for domain in ("Page", "Runtime", "Log"):
                        await page.send(f"{domain}.enable")
                    yield page
                finally:
                    listening.cancel()
                    await asyncio.wait([listening], timeout=5)
    finally:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _port(file: Path) -> int:
    """Chromium writes the port it chose, in its own time."""
    for _ in range(600):
        text = await asyncio.to_thread(_read, file)
        if "\n" in text:
            return int(text.split("\n")[0])
        await asyncio.sleep(0.05)
    raise TimeoutError(f"{file} was not written")


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""
