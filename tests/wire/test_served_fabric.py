"""The simulated fabric as devices: unmodified clients read it, and the daemon finds the fault."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from support import require
from support.daemon import devices, fabricmon, running

from fabricmon.formats import interchange

pytestmark = [pytest.mark.wire, pytest.mark.timeout(420)]

# Healthy for long enough that a daemon has seen it so, then one fault to the end.
_SCENARIO = """\
title: host9 takes a fifth of its link from half a minute on
kind: slow-receiver
technology: {technology}
duration: 400s
events:
  - {{do: slow-receiver, at: 35s, lasts: 360s, host: host9, takes: 0.2}}
expect:
  - {{kind: slow-receiver, within: 5}}
"""


def served(technology: str, folder: Path) -> AbstractContextManager[Path]:
    """The scenario as devices, for the time of a `with` block."""
    return devices(_SCENARIO.format(technology=technology), folder)


def _address(folder: Path, name: str, device: str) -> str:
    groups = json.loads((folder / f"{name}.json").read_text())
    (address,) = [g["targets"][0] for g in groups if g["labels"]["name"] == device]
    return str(address)


@pytest.fixture(scope="module")
def roce(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A RoCE fabric with a slow receiver, as devices."""
    with served("roce", tmp_path_factory.mktemp("roce")) as folder:
        yield folder


@pytest.fixture(scope="module")
def subnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An InfiniBand fabric with the same fault."""
    require("ibsim-run")
    with served("infiniband", tmp_path_factory.mktemp("ib")) as folder:
        yield folder


class TestForeignClients:
    def test_snmpbulkwalk_reads_traffic_pauses_and_neighbours(self, roce: Path) -> None:
        """Names, 64-bit octets, priority 3 of CISCO-PFC-EXT, and LLDP."""
        walk = require("snmpbulkwalk")
        agent = _address(roce, "snmp", "leaf0")

        def rows(oid: str) -> list[str]:
            command = [walk, "-v2c", "-c", "public", "-OnQ", agent, oid]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
            return done.stdout.splitlines()

        names = rows("1.3.6.1.2.1.31.1.1.1.1")
        assert any(line.endswith(("Ethernet1", '"Ethernet1"')) for line in names)
        before = rows("1.3.6.1.2.1.31.1.1.1.6")
        assert len(before) == len(names)
        assert any(int(line.rpartition(" ")[2]) > 1 << 32 for line in before)
        assert len(rows("1.3.6.1.4.1.9.9.813.1.2.1.3")) >= len(names)
        assert any("host0" in line for line in rows("1.0.8802.1.1.2.1.4.1.1.9"))
        deadline = time.monotonic() + 30
        while rows("1.3.6.1.2.1.31.1.1.1.6") == before:
            assert time.monotonic() < deadline, "the counters stand still"
            time.sleep(0.5)

    def test_a_plain_grpc_client_reads_gnmi(self, roce: Path) -> None:
        """Subscribe ONCE with hand-made bytes: no code of ours on the client's side."""
        import grpc

        from fabricmon.formats.gnmi.gnmi_proto import messages

        gnmi = messages()
        request = gnmi.SubscribeRequest()
        request.subscribe.mode = 1  # ONCE
        entry = request.subscribe.subscription.add()
        for name in ("interfaces", "interface", "state", "counters"):
            entry.path.elem.add(name=name)
        with grpc.insecure_channel(_address(roce, "gnmi", "leaf0")) as channel:
            subscribe = channel.stream_stream("/gnmi.gNMI/Subscribe")
            answers = [
                gnmi.SubscribeResponse.FromString(raw)
                for raw in subscribe(iter([request.SerializeToString()]), timeout=30)
            ]
        updates = [u for answer in answers for u in answer.update.update]
        assert any(u.path.elem[-1].name == "in-octets" or "octets" in str(u.path) for u in updates)
        assert answers[-1].sync_response

    def test_infiniband_diags_read_the_subnet(self, subnet: Path) -> None:
        """The tools find every node, and `perfquery -x` reads moving counters."""
        config = json.loads((subnet / "fabricmon-infiniband.yaml").read_text())
        environment = {**os.environ, **config["collectors"]["infiniband"]["environment"]}

        def run(*command: str) -> str:
            done = subprocess.run(
                [require("ibsim-run"), *command], env=environment, cwd=subnet, timeout=60,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            return done.stdout

        topology = interchange.read_topology((subnet / "topology.json").read_bytes())
        found = run(require("ibnetdiscover"))
        switches = [node for node in topology.nodes if node.kind == "switch"]
        assert found.count("\nSwitch\t") == len(switches)
        assert found.count("\nCa\t") == len(topology.nodes) - len(switches)

        def sent() -> int:
            line = next(
                line
                for line in run(require("perfquery"), "-x", "1", "1").splitlines()
                if line.startswith("PortXmitData:")
            )
            return int(line.rpartition(".")[2])

        before = sent()
        assert before > 0
        deadline = time.monotonic() + 30
        while sent() == before:
            assert time.monotonic() < deadline, "the counters stand still"
            time.sleep(0.5)
        assert "## Summary:" in run(require("ibqueryerrors"), "--skip-sl", "--counters")


def _direct(folder: Path) -> dict[str, Any]:
    """The worst incident of the direct feed of the same scenario."""
    scenario = str(folder / "scenario.yaml")
    done = fabricmon("simulate", scenario, "--duration", "80s", "-o", "json", timeout=200)
    incident: dict[str, Any] = json.loads(done.stdout)[0]
    return incident


def _found(folder: Path, protocol: str, scratch: Path) -> dict[str, Any]:
    """The incident that a daemon finds over one protocol, of the kind the direct feed gives."""
    kind = _direct(folder)["kind"]
    with running(scratch, (folder / f"fabricmon-{protocol}.yaml").read_text()) as daemon:
        return daemon.wait(  # type: ignore[no-any-return]
            lambda: next((i for i in daemon.json("/api/v1/incidents") if i["kind"] == kind), None),
            200,
        )


def _ends(incident: dict[str, Any]) -> set[tuple[str, str]]:
    """Both ends of the cause's cable."""
    cause = incident["cause"]
    return {(cause["device"], cause["port"]), (cause["peer_device"], cause["peer_port"])}


@pytest.mark.parametrize("protocol", ["snmp", "gnmi"])
def test_the_daemon_over_ethernet_protocols(tmp_path: Path, protocol: str) -> None:
    """The same kind at the same cable as the direct feed finds."""
    with served("roce", tmp_path) as folder:
        incident = _found(folder, protocol, tmp_path)
    assert _ends(incident) & _ends(_direct(tmp_path))


def test_the_daemon_over_infiniband(tmp_path: Path) -> None:
    """The same kind, verdict and host as the direct feed finds."""
    require("ibsim-run")
    with served("infiniband", tmp_path) as folder:
        incident = _found(folder, "infiniband", tmp_path)
    expected = _direct(tmp_path)
    assert incident["verdict"] == expected["verdict"]
    assert {device for device, _ in _ends(incident)} == {device for device, _ in _ends(expected)}
