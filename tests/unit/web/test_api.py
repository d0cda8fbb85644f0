"""`/api/v1`: what it says is what its description promises, and writing is guarded."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import bcrypt
import numpy as np
import pytest
from support.schema import misfits
from support.snapshots import (
    leaf_spine,
    make_frame,
    make_incident,
    make_snapshot,
    make_status,
    make_table,
)

from fabricmon.model.incident import IncidentState, Victim
from fabricmon.model.maintenance import MaintenanceWindow
from fabricmon.model.readings import State
from fabricmon.model.window import Window
from fabricmon.web.api.openapi import DESCRIPTION

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from support.webstate import Served

    from fabricmon.api import Context
    from fabricmon.model.snapshot import Snapshot

    Serve = Callable[..., AbstractAsyncContextManager[Served]]

HOSTILE = '<img src=x onerror="alert(1)">'


def _snapshot(tick: int = 1, **changes: Any) -> Snapshot:
    topology = leaf_spine(2, 2, 2)
    table = make_table([])
    table.adopt(topology)
    n = len(table)
    stall = [0.0] * n
    stall[0], stall[1] = 0.5, float("nan")
    frame = make_frame(n, stall=stall, step=tick, time_ns=1_700_000_000_000_000_000 + tick * 10**10)
    frame.state[0, 2] = State.SATURATED
    frame.rate[0, 2] = np.nan
    frame.gauges["module_temperature_c"] = np.full(n, 41.5, np.float32)
    values: dict[str, Any] = {
        "topology": topology,
        "incidents": [make_incident(victims=[Victim("leaf0", "up0", 0.5)])],
        "targets": [make_status(), make_status("leaf9", up=False, last_success_ns=None)],
        "job_cost": {"llm-1": 3.0},
    }
    return make_snapshot(table, frame, tick=tick, **{**values, **changes})


def _give(served: Served, *snapshots: Snapshot) -> None:
    """As the runtime does at each tick."""
    for snapshot in snapshots:
        window = served.state.past.setdefault(snapshot.fabric, Window())
        window.push(snapshot.frame)
        served.state.latest[snapshot.fabric] = snapshot
        served.server.publish(snapshot)


async def _json(served: Served, path: str, **options: Any) -> Any:
    status, text, _ = await served.get(path, **options)
    assert status == 200, text
    return json.loads(text)


READS = [
    ("/api/v1/status", ""),
    ("/api/v1/incidents", "?fabric=pod1&state=open"),
    ("/api/v1/incidents/{id}", ""),
    ("/api/v1/ports", "?sort=name&limit=3&q=leaf"),
    ("/api/v1/port", "?device=leaf0&port=up0"),
    ("/api/v1/topology", "?fabric=pod1"),
    ("/api/v1/targets", ""),
    ("/api/v1/timeline", ""),
    ("/api/v1/moment", "?tick=1"),
    ("/api/v1/maintenance", ""),
    ("/api/v1/openapi.json", ""),
]


@pytest.mark.parametrize(("path", "query"), READS)
async def test_answers_are_as_described(serve: Serve, path: str, query: str) -> None:
    """Every key of every answer is described, and nothing described is missing."""
    async with serve() as served:
        _give(served, _snapshot(1), _snapshot(2))
        served.state.declared.declare(MaintenanceWindow("leaf1", 0, 2**61), 0)
        found = await _json(served, path.replace("{id}", make_incident().id) + query)
        schema = DESCRIPTION["paths"][path]["get"]["responses"]["200"]["content"]
        assert found
        assert misfits(found, schema["application/json"]["schema"], DESCRIPTION) == []


async def test_the_description_names_every_route_and_no_other(serve: Serve) -> None:
    """A new handler has to be described, a described one has to be there."""
    async with serve() as served:
        app = served.server._runner.app
        there = {
            (route.method.lower(), route.resource.canonical)
            for route in app.router.routes()
            if route.resource.canonical.startswith("/api/") and route.method != "HEAD"
        }
    described = {(verb, path) for path, verbs in DESCRIPTION["paths"].items() for verb in verbs}
    assert there == described
    assert {path for path, _ in READS} | {"/api/v1/events"} == {
        path for path, verbs in DESCRIPTION["paths"].items() if "get" in verbs
    }


async def test_ports_come_worst_first_in_pages(serve: Serve) -> None:
    """Unknown is last; `limit` and `offset` page; `q` and `device` narrow; names sort naturally."""
    async with serve() as served:
        _give(served, _snapshot())
        everything = await _json(served, "/api/v1/ports")
        assert everything["total"] == 16
        assert (everything["ports"][0]["device"], everything["ports"][0]["stall"]) == ("leaf0", 0.5)
        assert everything["ports"][-1]["stall"] is None
        page = await _json(served, "/api/v1/ports?limit=4&offset=14")
        assert page["ports"] == everything["ports"][14:]
        narrow = await _json(served, "/api/v1/ports?device=leaf1&q=UP&sort=name")
        assert [port["port"] for port in narrow["ports"]] == ["up0", "up1"]
        for bad in ("sort=age", "limit=1001", "limit=-1", "offset=x"):
            assert (await served.get(f"/api/v1/ports?{bad}"))[0] == 400


async def test_a_refused_reload_is_in_the_status(serve: Serve, context: Context) -> None:
    """Whether the last reload was accepted, and when one last was."""
    async with serve() as served:
        assert (await _json(served, "/api/v1/status"))["last_reload_successful"] is None
        context.report.metrics.reload_time.set(1_700_000_000)
        context.report.metrics.reload_ok.set(0)
        status = await _json(served, "/api/v1/status")
        assert status["last_reload_successful"] is False
        assert status["last_reload_at"] == "2023-11-14T22:13:20.000Z"


async def test_a_worker_says_who_leads(serve: Serve) -> None:
    """Where a fabric is judged elsewhere in the cluster, the status names the worker."""
    async with serve() as served:
        assert (await _json(served, "/api/v1/status"))["leaders"] == {}
        served.state.led = {"pod1": "b", "pod2": ""}
        assert (await _json(served, "/api/v1/status"))["leaders"] == {"pod1": "b", "pod2": ""}


async def test_a_count_that_is_not_there_is_not_zero(serve: Serve) -> None:
    """A counter that is missing or not supported has no total."""
    async with serve() as served:
        snapshot = _snapshot()
        snapshot.frame.state[0, 2] = State.MISSING
        snapshot.frame.queue_state[0, 2, 1] = State.UNSUPPORTED
        _give(served, snapshot)
        port = await _json(served, "/api/v1/port?device=leaf0&port=up1")
        none = {(c["counter"], c["queue"]) for c in port["counters"] if c["total"] is None}
        assert none == {("rx_bytes", None), ("rx_pfc_frames", 3)}


async def test_a_port_tells_everything(serve: Serve) -> None:
    """Counters with their state, gauges, the window's signals, and rates per tick."""
    async with serve() as served:
        _give(served, _snapshot(1), _snapshot(2), _snapshot(3))
        port = await _json(served, "/api/v1/port?fabric=pod1&device=leaf0&port=up1")
        by_name = {(c["counter"], c["queue"]): c for c in port["counters"]}
        assert by_name["rx_bytes", None]["state"] == "saturated"
        assert by_name["rx_bytes", None]["rate"] is None
        assert by_name["rx_pfc_frames", 3]["queue"] == 3
        assert port["gauges"]["module_temperature_c"] == 41.5
        assert len(port["signals"]["times"]) == len(port["signals"]["stall"]) == 3
        assert port["rates"]["tx_bytes"] == [1.0, 1.0, 1.0]
        assert "rx_bytes" not in port["rates"]
        assert (await served.get("/api/v1/port?device=leaf0&port=nope"))[0] == 404


async def test_a_past_tick_can_be_looked_at(serve: Serve) -> None:
    """The timeline lists the ticks; a moment shows what was held back then."""
    async with serve() as served:
        _give(served, _snapshot(1), _snapshot(2, incidents=[]))
        line = await _json(served, "/api/v1/timeline")
        assert (line["ticks"], line["incidents"]) == ([1, 2], [1, 0])
        then = await _json(served, "/api/v1/moment?tick=1")
        assert then["stalled"] == [["leaf0", "up0", 0.5]]
        assert [one["kind"] for one in then["incidents"]] == ["slow-receiver"]
        assert (await served.get("/api/v1/moment?tick=9"))[0] == 404


async def test_closed_incidents_stay_to_be_read(serve: Serve) -> None:
    """Open ones first; `state` and `kind` narrow."""
    async with serve() as served:
        old = make_incident(id="old", state=IncidentState.CLOSED, ended_ns=10**18)
        _give(served, _snapshot(1, closed=[old]))
        found = await _json(served, "/api/v1/incidents")
        assert [one["state"] for one in found] == ["open", "closed"]
        closed = await _json(served, "/api/v1/incidents?state=closed")
        assert [one["id"] for one in closed] == ["old"]
        assert await _json(served, "/api/v1/incidents?kind=incast") == []
        assert (await served.get("/api/v1/incidents/none"))[0] == 404
        assert (await served.get("/api/v1/incidents?verdict=guilty"))[0] == 400


async def test_several_fabrics_have_to_be_named(serve: Serve) -> None:
    """With two fabrics a question without `fabric` has no answer."""
    async with serve() as served:
        _give(served, _snapshot(fabric="pod1"), _snapshot(fabric="pod2"))
        assert (await served.get("/api/v1/topology"))[0] == 404
        assert (await _json(served, "/api/v1/topology?fabric=pod2"))["fabric"] == "pod2"


async def test_writing_is_refused_where_nobody_is_known(serve: Serve) -> None:
    """Without authentication there is no acknowledgement and no maintenance."""
    async with serve() as served:
        _give(served, _snapshot())
        path = f"/api/v1/incidents/{make_incident().id}/acknowledge"
        status, text, _ = await served.ask("POST", path, json={})
        assert (status, "web config file" in text) == (403, True)
        assert (await served.ask("POST", "/api/v1/maintenance", json={}))[0] == 403


@pytest.fixture
def secured(serve: Serve, tmp_path: Path) -> AbstractAsyncContextManager[Served]:
    """A server that knows `ops`."""
    path = tmp_path / "web.yml"
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
    path.write_text(f"basic_auth_users:\n  ops: {hashed}\n")
    return serve(config_file=path)


OPS = {"Authorization": aiohttp.encode_basic_auth("ops", "pw")}


async def test_an_acknowledgement_says_who_and_when(
    secured: AbstractAsyncContextManager[Served],
) -> None:
    """It is on the incident until it is taken back."""
    async with secured as served:
        _give(served, _snapshot())
        path = f"/api/v1/incidents/{make_incident().id}/acknowledge"
        assert (await served.ask("POST", path, json={}))[0] == 401
        status, text, _ = await served.ask("POST", path, json={"comment": "mine"}, headers=OPS)
        assert (status, json.loads(text)["acknowledged"]["by"]) == (200, "ops")
        incident = (await _json(served, "/api/v1/incidents", headers=OPS))[0]
        assert incident["acknowledged"]["comment"] == "mine"
        await served.ask("DELETE", path, headers=OPS)
        incident = (await _json(served, "/api/v1/incidents", headers=OPS))[0]
        assert incident["acknowledged"] is None


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"json": {"comment": "x" * 1001}}, 400),
        ({"json": {"remark": "x"}}, 400),
        ({"data": b"{", "headers": {"Content-Type": "application/json"}}, 400),
        ({"data": b"[" * 100_000, "headers": {"Content-Type": "application/json"}}, 400),
        ({"data": b"comment=x"}, 415),
        ({"json": {}, "headers": {"Sec-Fetch-Site": "cross-site"}}, 403),
    ],
)
async def test_what_is_sent_is_checked(
    secured: AbstractAsyncContextManager[Served], options: dict[str, Any], code: int
) -> None:
    """Wrong bodies, deep bodies, forms and other sites' pages are refused."""
    async with secured as served:
        _give(served, _snapshot())
        path = f"/api/v1/incidents/{make_incident().id}/acknowledge"
        headers = {**OPS, **options.pop("headers", {})}
        assert (await served.ask("POST", path, headers=headers, **options))[0] == code


async def test_maintenance_is_declared_and_withdrawn(
    secured: AbstractAsyncContextManager[Served],
) -> None:
    """The pipeline's own list has the window, until it is withdrawn; the config's cannot be."""
    async with secured as served:
        served.state.declared.configure([MaintenanceWindow("spine0", 0, 2**61)])
        body = {
            "device": "leaf1",
            "start": "2023-11-14T22:00:00Z",
            "end": "2023-11-14T23:00:00+00:00",
        }
        status, text, _ = await served.ask("POST", "/api/v1/maintenance", json=body, headers=OPS)
        assert status == 201
        window = json.loads(text)
        assert (window["author"], window["end"]) == ("ops", "2023-11-14T23:00:00.000Z")
        assert [w.device for w in served.state.declared.windows()] == ["spine0", "leaf1"]
        for bad, code in (
            ({"end": body["start"]}, 409),
            ({"start": "2023-11-14T22:00:00"}, 400),
            ({"start": "0323-11-14T22:00:00Z"}, 400),
            ({"start": 0}, 400),
            ({"device": ""}, 400),
        ):
            refused = await served.ask(
                "POST", "/api/v1/maintenance", json={**body, **bad}, headers=OPS
            )
            assert refused[0] == code
        where = "/api/v1/maintenance/"
        assert (await served.ask("DELETE", where + window["id"], headers=OPS))[0] == 204
        configured = served.state.declared.windows()[0].id
        assert (await served.ask("DELETE", where + configured, headers=OPS))[0] == 404


async def test_hostile_names_stay_text(serve: Serve) -> None:
    """A device that calls itself a tag is JSON text, and is found by that name."""
    async with serve() as served:
        _give(served, make_snapshot(make_table([(HOSTILE, "1/1")]), make_frame(1)))
        found = await served.get("/api/v1/ports", params={"q": "onerror"})
        assert found[2]["Content-Type"] == "application/json"
        assert json.loads(found[1])["ports"][0]["device"] == HOSTILE
        asked = {"device": HOSTILE, "port": "1/1"}
        assert (await served.get("/api/v1/port", params=asked))[0] == 200


async def test_a_tick_is_announced_to_listeners(serve: Serve) -> None:
    """The event stream has one event per tick, and ends when the server stops."""
    async with (
        serve() as served,
        aiohttp.ClientSession() as session,
        session.get(served.url + "/api/v1/events") as response,
    ):
        assert response.headers["Content-Type"] == "text/event-stream"
        assert await response.content.readline() == b"retry: 2000\n"
        await asyncio.to_thread(_give, served, _snapshot(7))
        await response.content.readline()
        event = json.loads((await response.content.readline()).removeprefix(b"data: "))
        assert (event["fabric"], event["tick"], event["incidents"]) == ("pod1", 7, 1)
        async with asyncio.timeout(2):
            await served.server.stop()
            await response.content.read()
