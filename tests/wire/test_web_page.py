"""The status page in a real Chromium."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import bcrypt
import numpy as np
import pytest
from support.chromium import Page, chromium
from support.snapshots import (
    START_NS,
    leaf_spine,
    make_frame,
    make_incident,
    make_snapshot,
    make_status,
    make_table,
)
from support.webstate import HandState

from fabricmon.model.incident import Cause, Severity, Victim
from fabricmon.model.maintenance import MaintenanceWindow
from fabricmon.model.window import Window
from fabricmon.web import WebConfig, WebServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from fabricmon.api import Context
    from fabricmon.model.ports import PortTable
    from fabricmon.model.topology import Topology

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]

CAUSE = Cause("host1-1", "mlx5_0/1", 3, "leaf1", "down1", 0.93)
HOSTILE = '<img src=x onerror="window.hacked=1">'


class Site:
    """A server with one fabric whose ticks the test makes."""

    def __init__(self, context: Context, topology: Topology, config_file: Path | None) -> None:
        """Nothing published yet."""
        self.state = HandState()
        self.state.is_ready = True
        self.server = WebServer(
            WebConfig(listen_address="127.0.0.1:0", config_file=config_file),
            context,
            self.state,
            None,
        )
        self.topology = topology
        self.table: PortTable = make_table([])
        self.table.adopt(topology)
        self.window = self.state.past["pod1"] = Window()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server.port}/"

    def tick(self, number: int, *, fault: bool) -> None:
        """Publish one tick, with or without a slow receiver."""
        n = len(self.table)
        stall = np.zeros(n, np.float32)
        victims = []
        if fault:
            for row, (device, port) in enumerate(self.table.ids):
                if (device, port) == ("leaf1", "down1"):
                    stall[row] = 0.9
                elif device.startswith("spine") and port == "p1":
                    stall[row] = 0.5
            rows = np.flatnonzero(stall)
            victims = [Victim(*self.table.ids[row], float(stall[row])) for row in rows]
        frame = make_frame(n, stall=stall.tolist(), step=number, time_ns=START_NS + number * 10**10)
        incidents = [make_incident(CAUSE, victims, severity=Severity.SEVERE)] if fault else []
        targets = [make_status("leaf1"), make_status("leaf2", up=False, last_error="no answer")]
        snapshot = make_snapshot(
            self.table,
            frame,
            tick=number,
            topology=self.topology,
            incidents=incidents,
            targets=targets,
        )
        self.window.push(frame)
        self.state.latest["pod1"] = snapshot
        self.server.publish(snapshot)


@asynccontextmanager
async def opened(
    context: Context, folder: Path, topology: Topology, config_file: Path | None = None
) -> AsyncIterator[tuple[Site, Page]]:
    """A served site and a tab; afterwards the console must have had nothing to complain of."""
    site = Site(context, topology, config_file)
    await site.server.start()
    try:
        async with chromium(folder) as page:
            await page.size(1300, 900)
            yield site, page
            assert page.errors == []
    finally:
        await site.server.stop()


def has(text: str) -> str:
    """An expression that is true once the page shows `text`."""
    return f"document.body.innerText.includes({text!r})"


async def test_the_page_lives_with_the_ticks(context: Context, tmp_path: Path) -> None:
    """It loads, follows a fault as it opens without a reload, and leads to evidence and advice."""
    async with opened(context, tmp_path, leaf_spine(2, 2, 2)) as (site, page):
        site.tick(1, fault=False)
        await page.goto(site.url)
        await page.until(has("No incident. 0 ports wait"))
        await page.until("performance.getEntriesByName('fabric-drawn').length > 0")
        await asyncio.to_thread(site.tick, 2, fault=True)
        await page.until(has("It is a host: slow-receiver at host1-1 [mlx5_0/1]; 3 ports"))
        await page.eval("document.querySelector('.cards a').click()")
        await page.until(has("Look at the host's PCIe and memory before the network."))
        assert "below 0.02" in await page.text()
        assert "set up users in the web config file" in await page.text()
        # The pressure tree: what waits on the host, and under it what waits on the leaf.
        await page.until("document.querySelectorAll('.tree ul ul li').length === 2")
        await page.eval("document.querySelector('.tree ul a').click()")
        await page.until("document.querySelectorAll('.plot canvas').length >= 3")
        await page.until("document.querySelectorAll('.plot table').length >= 3")
        await page.goto(site.url + "#/targets")
        await page.until(has("no answer"))


async def test_a_follower_of_a_cluster_says_who_leads(context: Context, tmp_path: Path) -> None:
    """What another worker judges is on its page, and this page names the worker."""
    async with opened(context, tmp_path, leaf_spine(2, 2, 2)) as (site, page):
        site.state.led = {"pod1": "east", "pod2": ""}
        await page.goto(site.url)
        await page.until(has("Worker east of the cluster judges pod1"))
        assert "No worker of the cluster judges pod2 now." in await page.text()
        assert "Waiting for the first poll" not in await page.text()


async def test_the_past_can_be_scrubbed(context: Context, tmp_path: Path) -> None:
    """The slider shows any tick that is kept, and leads back to now."""
    async with opened(context, tmp_path, leaf_spine(2, 2, 2)) as (site, page):
        for number in range(1, 31):
            site.tick(number, fault=number > 20)
        await page.goto(site.url)
        await page.until(has("slow-receiver at host1-1"))
        await page.eval("document.querySelector('input[type=range]').focus()")
        await page.press("Home")
        await page.until(has("No incident."))
        assert await page.eval(
            "document.querySelector('input[type=range]').getAttribute('aria-valuetext')"
            ".startsWith('tick 1,')"
        )
        await asyncio.to_thread(site.tick, 31, fault=True)
        await asyncio.sleep(0.8)
        assert "No incident." in await page.text()  # looking at the past, it stays there
        await page.press("End")
        await page.until(has("slow-receiver at host1-1"))


async def test_everything_works_by_keyboard(context: Context, tmp_path: Path) -> None:
    """Tab reaches the map; arrows move on it and say where; Enter opens; the theme flips."""
    async with opened(context, tmp_path, leaf_spine(2, 2, 2)) as (site, page):
        site.tick(1, fault=True)
        await page.goto(site.url)
        await page.until("performance.getEntriesByName('fabric-drawn').length > 0")
        await page.press("Tab")
        assert await page.eval("document.activeElement.className") == "skip"
        reached = []
        for _ in range(12):
            await page.press("Tab")
            reached.append(await page.eval("document.activeElement.tagName"))
            if reached[-1] == "CANVAS":
                break
        assert reached[-1] == "CANVAS"
        assert reached.count("A") == 5  # four pages, and the way to the incident
        await page.press("ArrowRight")
        await page.until(has("spine0, spine: 1 ports held back"))
        await page.press("ArrowDown")
        await page.until(has("leaf0, leaf: nothing held back"))
        await page.press("ArrowRight")
        await page.until(has("leaf1, leaf: 1 ports held back"))
        await page.press("Enter")
        await page.until(has("Ports of leaf1"))
        await page.until("document.activeElement.id === 'main'")
        for where in ("#/incidents", "#/targets"):  # at once, or typing is cut off
            moved = "addEventListener('hashchange', () => setTimeout(done))"
            await page.eval("document.querySelector('header button').focus()")
            await page.eval(f"new Promise((done) => {{ {moved}; location.hash = '{where}'; }})")
            assert await page.eval("document.activeElement.id") == "main"
        before = await page.eval("getComputedStyle(document.body).backgroundColor")
        await page.eval("document.querySelector('header button').focus()")
        await page.press("Enter")
        await page.until(f"getComputedStyle(document.body).backgroundColor !== {before!r}")


async def test_whoever_cannot_see_it_is_told(context: Context, tmp_path: Path) -> None:
    """On every page, in light and dark, each control has a name, and text stands out enough."""
    async with opened(context, tmp_path, leaf_spine(2, 2, 2)) as (site, page):
        site.tick(1, fault=True)
        window = MaintenanceWindow("leaf1", START_NS, 2 * START_NS, "down1", comment="new optics")
        site.state.declared.declare(window, START_NS)
        where = ["", "incidents", f"incident/{make_incident(CAUSE).id}", "ports", "targets"]
        for dark in (False, True):
            await page.size(1300, 900, dark=dark)
            for path in [*where, "port/pod1/leaf1/down1"]:
                await page.goto(f"{site.url}#/{path}")
                await page.until(has("new optics" if path == "incidents" else "fabricmon"))
                await page.until("!!document.querySelector('main h1 ~ *')")
                tree = await page.send("Accessibility.getFullAXTree")
                nameless = [
                    node["role"]["value"]
                    for node in tree["nodes"]
                    if not node.get("ignored")
                    and node["role"]["value"] in CONTROLS
                    and not node["name"]["value"].strip()
                ]
                assert nameless == [], path
                assert await page.eval(CONTRAST) >= 4.5, (path, dark)


CONTROLS = {"button", "link", "textbox", "searchbox", "combobox", "slider", "img", "application"}
CONTRAST = """(() => {
  const light = (text) => {
    const part = text.match(/[\\d.]+/g).slice(0, 3).map((v) => {
      const s = v / 255;
      return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!colour.endsWith(", 0)")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  let worst = 21;
  for (const one of document.querySelectorAll("a, p, td, th, dt, dd, span, button, h1, h2")) {
    if (!one.innerText || one.closest(".pulse") || one.disabled) continue;
    const [a, b] = [light(getComputedStyle(one).color), light(ground(one))];
    worst = Math.min(worst, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return worst;
})()"""
"""The lowest contrast between a text and what it stands on, as WCAG counts it."""


async def test_an_incident_is_acknowledged_in_the_page(context: Context, tmp_path: Path) -> None:
    """Somebody who is known says that they look after it, and takes that back."""
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
    users = await asyncio.to_thread(_write, tmp_path / "web.yml", hashed)
    topology = leaf_spine(2, 2, 2)
    async with opened(context, tmp_path, topology, config_file=users) as (site, page):
        site.tick(1, fault=True)
        await page.goto(site.url.replace("http://", "http://ops:pw@"))
        await page.until("!!document.querySelector('.cards a')")
        await page.eval("document.querySelector('.cards a').click()")
        await page.until("!!document.querySelector('form button')")
        await page.eval("document.querySelector('form input').focus()")
        for key in "mine":
            await page.press(key)
        await page.press("Enter")
        await page.until(has("Seen by ops"))
        assert ": mine" in await page.text()
        await page.eval("location.hash = '#/'")
        await page.until(has("seen by ops"))
        await page.eval("history.back()")
        await page.until(has("Take back"))
        await page.eval("document.querySelector('main p button').click()")
        await page.until("!!document.querySelector('form button')")


async def test_maintenance_is_declared_in_the_page(context: Context, tmp_path: Path) -> None:
    """From the incident to the form with its port filled in, to the list, and back out of it."""
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
    users = await asyncio.to_thread(_write, tmp_path / "web.yml", hashed)
    topology = leaf_spine(2, 2, 2)
    async with opened(context, tmp_path, topology, config_file=users) as (site, page):
        site.tick(1, fault=True)
        await page.goto(site.url.replace("http://", "http://ops:pw@"))
        await page.until("!!document.querySelector('.cards a')")
        await page.eval("document.querySelector('.cards a').click()")
        await page.until(has("Declare maintenance there"))
        await page.eval(
            "[...document.querySelectorAll('a')].find((a) => a.innerText.includes('there')).click()"
        )
        form = "document.querySelector('form[aria-label=\"Declare maintenance\"]')"
        await page.until(f"{form}?.querySelector('input').value === 'host1-1'")
        await page.eval(f"[...{form}.querySelectorAll('input')].at(-1).focus()")
        for key in "optics":
            await page.press(key)
        await page.press("Enter")
        await page.until(has("optics"))
        (window,) = site.state.declared.declared()
        assert (window.device, window.port, window.fabric) == ("host1-1", "mlx5_0/1", "pod1")
        assert (window.author, window.end_ns - window.start_ns) == ("ops", 7200 * 10**9)
        await page.eval("document.querySelector('td button').click()")
        await page.until(has("none declared"))
        assert site.state.declared.declared() == ()


def _write(path: Path, hashed: str) -> Path:
    path.write_text(f"basic_auth_users:\n  ops: {hashed}\n")
    return path


async def test_names_are_only_ever_text(context: Context, tmp_path: Path) -> None:
    """A device that calls itself a script is shown as what it calls itself, on every page."""
    topology = leaf_spine(1, 1, 1)
    async with opened(context, tmp_path, topology) as (site, page):
        table = make_table([(HOSTILE, HOSTILE), ("b", "'\"><script>window.hacked=1</script>")])
        incident = make_incident(
            Cause(HOSTILE, HOSTILE), [Victim(HOSTILE, HOSTILE, 0.5)], advice=HOSTILE
        )
        status = make_status(HOSTILE, last_error=HOSTILE)
        snapshot = make_snapshot(
            table, make_frame(2, stall=[0.5, 0.1]), incidents=[incident], targets=[status]
        )
        site.state.latest["pod1"] = snapshot
        site.server.publish(snapshot)
        name = "encodeURIComponent(document.title && " + repr(HOSTILE) + ")"
        for where in (
            "'#/'",
            "'#/incidents'",
            f"'#/incident/{incident.id}'",
            "'#/ports'",
            "'#/targets'",
            f"'#/port/pod1/' + {name} + '/' + {name}",
        ):
            await page.goto(site.url)
            await page.until("!!document.querySelector('h1')")
            await page.eval(f"location.hash = {where}")
            await page.until(has("onerror="))
            assert await page.eval("window.hacked") is None
            assert await page.eval("document.images.length") == 1  # the icon


async def test_ten_thousand_ports_are_drawn_within_two_seconds(
    context: Context, tmp_path: Path
) -> None:
    """From the request to the drawn fabric, in the browser's own clock."""
    async with opened(context, tmp_path, leaf_spine(64, 32, 47)) as (site, page):
        assert len(site.table) > 10_000
        site.tick(1, fault=True)
        times = []
        for i in range(3):
            await page.goto(f"{site.url}?{i}")
            await page.until("performance.getEntriesByName('fabric-drawn').length > 0")
            times.append(
                await page.eval("performance.getEntriesByName('fabric-drawn')[0].startTime")
            )
        assert min(times) < 2000
