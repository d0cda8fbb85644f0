"""The API against its own description, for any input: no surprise, and never a server error."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import aiohttp
import bcrypt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.schema import misfits
from support.snapshots import (
    leaf_spine,
    make_frame,
    make_incident,
    make_snapshot,
    make_status,
    make_table,
)
from support.webstate import HandState

from fabricmon.api import Context
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock
from fabricmon.web import WebConfig, WebServer
from fabricmon.web.api.openapi import DESCRIPTION

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = [
    (verb, path)
    for path, verbs in DESCRIPTION["paths"].items()
    for verb in verbs
    if path != "/api/v1/events"
]
ANY = st.text(max_size=40)
KNOWN = st.sampled_from(
    ["pod1", "leaf0", "up0", "open", "incast", "0", "1", "-1", "1e9", "stall", "name", "", "\x00"]
)
TIMES = st.sampled_from(["2026-01-31T22:00:00Z", "2026-02-01T00:00:00+02:00", "0001-01-01", "x"])
VALUES = st.one_of(ANY, KNOWN, TIMES, st.integers(), st.none(), st.booleans(), st.floats())


class Client:
    """Asks a server that lives in a thread of its own."""

    def __init__(self, port: int) -> None:
        """Know where it is."""
        self.port = port
        self.auth = aiohttp.encode_basic_auth("ops", "pw")

    def ask(self, verb: str, target: str, body: bytes | None) -> tuple[int, str, bytes]:
        """(status, content type, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {"Authorization": self.auth, "Content-Type": "application/json"}
        connection.request(verb.upper(), target, body, headers)
        answer = connection.getresponse()
        found = answer.status, answer.headers.get_content_type(), answer.read()
        connection.close()
        return found


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server that knows `ops`, with one fabric."""
    file = tmp_path_factory.mktemp("web") / "web.yml"
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
    file.write_text(f"basic_auth_users:\n  ops: {hashed}\n")
    clock, state = ManualClock(), HandState()
    config = WebConfig(listen_address="127.0.0.1:0", config_file=file)
    server = WebServer(config, Context(clock, Reporter(clock)), state, None)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(20)
    topology = leaf_spine(1, 1, 2)
    table = make_table([])
    table.adopt(topology)
    snapshot = make_snapshot(
        table,
        make_frame(len(table)),
        topology=topology,
        incidents=[make_incident()],
        targets=[make_status()],
    )
    state.latest["pod1"] = snapshot
    server.publish(snapshot)
    yield Client(server.port)
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def _matches(value: str, schema: dict[str, Any]) -> bool:
    """Whether a query parameter is what the description allows."""
    if schema["type"] == "integer":
        fits = re.fullmatch(r"\d{1,16}", value, re.ASCII) is not None
        return fits and int(value) <= schema["maximum"]
    return value in schema.get("enum", [value])


@pytest.mark.parametrize(("verb", "path"), CALLS)
@settings(max_examples=40)
@given(data=st.data())
def test_every_answer_is_one_that_is_described(
    client: Client, data: st.DataObject, verb: str, path: str
) -> None:
    """Whatever is sent, status and body are described ones, and what is not allowed is refused."""
    call = DESCRIPTION["paths"][path][verb]
    target, query, right = path, {}, True
    for parameter in call.get("parameters", []):
        if parameter["in"] == "path":
            part = data.draw(st.one_of(st.just(make_incident().id), ANY.filter(bool)))
            target = target.replace("{id}", quote(part, safe=""))
        elif data.draw(st.booleans()):
            query[parameter["name"]] = value = data.draw(st.one_of(KNOWN, ANY))
            right = right and _matches(value, parameter["schema"])
    body = None
    if "requestBody" in call:
        names = st.sampled_from(["device", "start", "end", "comment", "port", "other"])
        body = json.dumps(data.draw(st.one_of(st.dictionaries(names, VALUES), VALUES))).encode()
    status, kind, text = client.ask(verb, f"{target}?{urlencode(query)}", body)
    described = {int(code) for code in call["responses"]}
    assert status in described or (status in (404, 405) and "{id}" in path), text
    assert right or status >= 400
    if status == 200:
        assert kind == "application/json"
        schema = call["responses"]["200"]["content"]["application/json"]["schema"]
        assert misfits(json.loads(text), schema, DESCRIPTION) == []
