"""The SNMP collector against a real Net-SNMP agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.snmp_targets import collector, credential, target
from support.snmpd import AUTH_KEY, COMMUNITY, PRIV_KEY, Snmpd, free_udp_port, snmpd

from fabricmon.errors import PollError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fabricmon.api import Credential
    from fabricmon.model.readings import ReadingBatch

pytestmark = pytest.mark.wire

# The container's loopback always counts, so it is taken for a port here.
LOOPBACK = """
name: loopback
title: a host, its loopback included
extends: generic
ports: {types: [6, 24]}
"""
HC = {"rx_bytes": 6, "tx_bytes": 10}
SHA256 = {"user": "sha256aes", "auth": "sha256", "priv": "aes128"}
KEYS = {"auth_key": AUTH_KEY, "priv_key": PRIV_KEY}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snmpd]:
    """One agent for all tests of this file."""
    with snmpd(tmp_path_factory.mktemp("snmpd")) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of users' own mappings."""
    (tmp_path / "loopback.yaml").write_text(LOOPBACK, encoding="utf-8")
    return tmp_path


def v2c(folder: Path, community: str = COMMUNITY) -> Credential:
    """A v2c credential."""
    return credential(folder, {"community": community})


def count(batch: ReadingBatch, counter: str, port: str) -> int:
    """One count of a batch."""
    k = next(k for k, column in enumerate(batch.columns) if column.counter.id == counter)
    return int(batch.values[k, batch.ports.port.index(port)])


@pytest.mark.parametrize("engine", ["fast", "pysnmp"])
@pytest.mark.parametrize(
    ("secrets", "options"),
    [
        ({"community": COMMUNITY}, {}),
        (KEYS, SHA256),
        (KEYS, {"user": "sha1aes", "auth": "sha1", "priv": "aes128"}),
        (KEYS, {"user": "sha1aes256", "auth": "sha1", "priv": "aes256"}),
        (KEYS, {"user": "sha1aes256c", "auth": "sha1", "priv": "aes256c"}),
        (KEYS, {"user": "sha512aes256", "auth": "sha512", "priv": "aes256"}),
        (KEYS, {"user": "md5des", "auth": "md5", "priv": "des"}),
    ],
    ids=lambda value: value.get("user", "v2c") if "user" in value or not value else "",
)
async def test_counters_equal_snmpbulkwalk(
    agent: Snmpd, folder: Path, engine: str, secrets: dict[str, str], options: dict[str, str]
) -> None:
    """Every byte counter lies between what `snmpbulkwalk` read before and after the poll."""
    how = credential(folder, secrets, **options, engine=engine)
    here = target(agent.address, how, mapping="loopback")
    async with collector(here, mappings=[str(folder)]) as snmp:
        await snmp.poll(here)
        names = agent.bulkwalk("1.3.6.1.2.1.31.1.1.1.1")
        for counter, column in HC.items():
            root = f"1.3.6.1.2.1.31.1.1.1.{column}"
            before = agent.bulkwalk(root)
            batch = (await snmp.poll(here)).batches[0]
            after = agent.bulkwalk(root)
            assert set(batch.ports.device) == {"testbox"}
            for oid, low in before.items():
                name = names[f"1.3.6.1.2.1.31.1.1.1.1.{oid.rpartition('.')[2]}"].strip('"')
                if name in batch.ports.port:
                    assert int(low) <= count(batch, counter, name) <= int(after[oid])
    assert "lo" in batch.ports.port


async def test_the_port_set_stays_the_same_object(agent: Snmpd, folder: Path) -> None:
    """Two polls of an unchanged device share one `PortSet`, and counters never fall."""
    here = target(agent.address, v2c(folder), mapping="loopback")
    async with collector(here, mappings=[str(folder)]) as snmp:
        first = (await snmp.poll(here)).batches[0]
        second = (await snmp.poll(here)).batches[0]
    assert second.ports is first.ports
    assert second.columns is first.columns
    assert (second.values >= first.values).all()
    assert (second.time_ns >= first.time_ns).all()


async def test_a_wrong_community_is_a_timeout_that_says_so(agent: Snmpd, folder: Path) -> None:
    """Agents are silent about a wrong community; the message names that possibility."""
    here = target(agent.address, v2c(folder, "wrong-community"))
    async with collector(here, timeout=0.1, retries=1) as snmp:
        with pytest.raises(PollError, match=r"switch: .*community is wrong") as caught:
            await snmp.poll(here)
    assert caught.value.reason is Reason.TIMEOUT
    assert "wrong-community" not in str(caught.value)


@pytest.mark.parametrize("engine", ["fast", "pysnmp"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user": "nobody"}, "user is not known"),
        ({"auth_key": "not-the-key-at-all"}, "authentication key"),
    ],
)
async def test_a_refused_user_is_named_and_the_key_is_not(
    agent: Snmpd, folder: Path, engine: str, change: dict[str, str], words: str
) -> None:
    """A wrong v3 user or key is an authentication failure naming the target, without any secret."""
    given = {**KEYS, **SHA256, **change}
    secrets = {key: given.pop(key) for key in KEYS}
    here = target(agent.address, credential(folder, secrets, **given, engine=engine))
    async with collector(here, timeout=0.2) as snmp:
        with pytest.raises(PollError, match=f"switch: .*{words}") as caught:
            await snmp.poll(here)
    assert caught.value.reason is Reason.AUTHENTICATION
    assert all(secret not in str(caught.value) for secret in secrets.values())


async def test_an_unknown_host_is_unreachable(folder: Path) -> None:
    """A name that does not resolve costs its target one clear failure."""
    here = target("no-such-host.invalid", v2c(folder))
    async with collector(here) as snmp:
        with pytest.raises(PollError, match=r"no-such-host\.invalid") as caught:
            await snmp.poll(here)
    assert caught.value.reason is Reason.UNREACHABLE


async def test_nothing_listening_is_a_timeout(folder: Path) -> None:
    """A port on which nothing listens ends at the configured deadline."""
    here = target(f"127.0.0.1:{free_udp_port()}", v2c(folder))
    async with collector(here, timeout=0.1, retries=0) as snmp:
        with pytest.raises(PollError, match="switch") as caught:
            await snmp.poll(here)
    assert caught.value.reason in (Reason.TIMEOUT, Reason.REFUSED)
