"""The daemon as its users run it: a process, its pages, its signals."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from support import ibsim, require
from support.daemon import fabricmon, running
from support.promserver import prometheus
from support.snmpd import AUTH_KEY, COMMUNITY, PRIV_KEY, moving_octets, snmpd

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]


def test_the_demo_shows_an_incident_and_ends_when_asked(tmp_path: Path) -> None:
    """`fabricmon run` prints one line, within a minute names a cause and victims, and exits 0."""
    with running(tmp_path) as daemon:
        assert daemon.line.startswith("fabricmon listens on http://127.0.0.1:")
        assert daemon.wait(lambda: daemon.samples("fabricmon_port_receive_bytes_total"))
        incident = daemon.wait(lambda: daemon.samples("fabricmon_incident_active"))
        labels = dict(next(iter(incident)))
        assert labels["device"], labels
        victims = daemon.wait(
            lambda: daemon.samples("fabricmon_incident_victim_stall_ratio", id=labels["id"])
        )
        assert all(0 < ratio <= 1 for ratio in victims.values())
        for name in ("fabricmon_port_transmit_stall_ratio", "fabricmon_port_anomaly_score"):
            assert all(0 <= value <= 1 for value in daemon.samples(name).values())
            assert daemon.samples(name)
        assert daemon.get("/-/ready").startswith("fabricmon is ready")
        code, seconds = daemon.stop()
        assert code == 0
        assert seconds < 5


def _gnmic(path: Path, octets: int) -> None:
    """Append one notification as gnmic's event format writes it."""
    event = [
        {
            "name": "port-stats",
            "timestamp": time.time_ns(),
            "tags": {"interface_name": "Ethernet1", "source": "leaf7:6030"},
            "values": {"/interfaces/interface/state/counters/in-octets": octets},
        }
    ]
    with path.open("a") as file:
        file.write(json.dumps(event) + "\n")


def test_each_collector_moves_its_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SNMP, InfiniBand and a growing gNMI file in one daemon; what dies or is removed is told."""
    monkeypatch.setenv("FM_COMMUNITY", COMMUNITY)
    monkeypatch.setenv("FM_AUTH", AUTH_KEY)
    monkeypatch.setenv("FM_PRIV", PRIV_KEY)
    require("perfquery")
    events = tmp_path / "events.json"
    _gnmic(events, 1_000)
    (tmp_path / "subnet").mkdir()
    with (
        ibsim.subnet(
            ibsim.net_text(2, 2, 1), tmp_path / "subnet", f"H-{ibsim.host_guid(0, 0):016x}"
        ) as subnet,
        snmpd(tmp_path / "agent", moving_octets(tmp_path)) as agent,
    ):
        targets = {
            "snmp": f"- {{collector: snmp, name: agent, address: '{agent.address}', "
            "credential: v3}",
            "gnmi": f"- {{collector: gnmi_file, name: events, address: {events}}}",
        }
        config = f"""\
interval: 1s
credentials:
  v3: {{version: 3, user: sha256aes, auth: sha256, auth_key: {{env: FM_AUTH}}, priv: aes128,
        priv_key: {{env: FM_PRIV}}}}
collectors:
  infiniband:
    read: tools
    command_prefix: [{require("ibsim-run")}]
    environment: {json.dumps(subnet.environment)}
    tick_bytes: 8
targets:
  - {{collector: infiniband, name: subnet, address: any}}
  {targets["snmp"]}
  {targets["gnmi"]}
"""
        with running(tmp_path, config) as daemon:
            up = "fabricmon_target_up"
            for name in ("agent", "events", "subnet"):
                daemon.wait(lambda name=name: 1.0 in daemon.samples(up, target=name).values())

            received = "fabricmon_port_receive_bytes_total"
            _gnmic(events, 5_000)
            daemon.wait(lambda: daemon.samples(received, device="leaf7"))
            before = max(daemon.samples(received, device="leaf7").values())
            _gnmic(events, 9_000)
            daemon.wait(lambda: max(daemon.samples(received, device="leaf7").values()) > before)

            host = "testbox"
            first = daemon.wait(lambda: daemon.samples(received, device=host))
            daemon.wait(lambda: daemon.samples(received, device=host) != first)

            leaf = f"S-{ibsim.leaf_guid(0):016x}"
            daemon.wait(lambda: daemon.samples(received, device="leaf-1"))
            stall = "fabricmon_port_transmit_stall_ratio"
            daemon.wait(lambda: daemon.samples(stall, device="leaf-1", port="1"))
            hot: dict[str, float] = {}
            for step in range(1, 13):
                # 3e8 ticks of 8 bytes are 0.096 s of a 200 Gb/s port; 12 of them fit in 32 bits.
                subnet.set_counter(leaf, 1, step * 300_000_000)
                time.sleep(1)
                for key, ratio in daemon.samples(stall).items():
                    if ratio > 0.01:
                        labels = dict(key)
                        hot[f"{labels['device']}[{labels['port']}]"] = ratio
            assert set(hot) == {"leaf-1[1]"}
            wait = "fabricmon_port_transmit_wait_seconds_total"
            daemon.wait(
                lambda: (
                    [
                        round(seconds, 6)
                        for seconds in daemon.samples(wait, device="leaf-1", port="1").values()
                    ]
                    == [1.152]
                )
            )
            subnet.set_counter(leaf, 1, 2**32 - 1)
            daemon.wait(lambda: daemon.samples("fabricmon_values_total", state="saturated"))
            daemon.wait(lambda: not daemon.samples(stall, device="leaf-1", port="1"))

            agent.process.kill()
            daemon.wait(lambda: 0.0 in daemon.samples(up, target="agent").values())
            daemon.wait(lambda: not daemon.samples(received, device=host))

            text = (tmp_path / "fabricmon.yaml").read_text()
            (tmp_path / "fabricmon.yaml").write_text(text.replace(targets["gnmi"], ""))
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait(lambda: not daemon.samples(up, target="events"))
            daemon.wait(lambda: not daemon.samples(received, device="leaf7"))
            assert daemon.samples(received, device="leaf-1")

            (tmp_path / "fabricmon.yaml").write_text("interval: 5x\n")
            daemon.process.send_signal(signal.SIGHUP)
            ok = "fabricmon_config_last_reload_successful"
            daemon.wait(lambda: 0.0 in daemon.samples(ok).values())
            assert daemon.samples(received, device="leaf-1")


def test_prometheus_scrapes_the_daemon(tmp_path: Path) -> None:
    """`up` is 1 on a real Prometheus, and the stall ratio can be asked for there."""
    require("prometheus")
    with running(tmp_path) as daemon:
        address = daemon.url.removeprefix("http://")
        scrape = (
            "scrape_configs:\n  - job_name: fabricmon\n    scrape_interval: 1s\n"
            f"    static_configs: [{{targets: ['{address}']}}]\n"
        )
        with prometheus(tmp_path, scrape) as server:
            (up,) = server.wait(lambda: [s for s in server.query("up") if s["value"][1] == "1"])
            assert up["metric"]["job"] == "fabricmon"
            assert server.wait(lambda: server.query("fabricmon_port_transmit_stall_ratio"))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("{collector: snmp, name: dead, address: '127.0.0.1:9', credential: v2}", "dead"),
        ("{collector: gnmi_file, name: gone, address: /nonexistent/events.json}", "gone"),
        ("{collector: infiniband, name: nohca, address: mlx9_9}", "nohca"),
    ],
)
def test_a_bad_target_costs_only_itself(tmp_path: Path, target: str, words: str) -> None:
    """`once` prints what the good target gave, one line on the bad one, and exits 1."""
    good = tmp_path / "events.json"
    _gnmic(good, 123_456_789)
    config = tmp_path / "fabricmon.yaml"
    config.write_text(
        "interval: 3s\ncredentials: {v2: {community: {env: FM_COMMUNITY}}}\ntargets:\n"
        f"  - {target}\n  - {{collector: gnmi_file, name: good, address: {good}}}\n"
    )
    done = fabricmon("once", "-c", str(config), "-o", "json", FM_COMMUNITY="secret-canary")
    assert done.returncode == 1
    (row,) = [r for r in json.loads(done.stdout) if r["counter"] == "rx_bytes"]
    assert ("good", "leaf7", "Ethernet1", 123_456_789, "ok") == (
        row["target"], row["device"], row["port"], row["value"], row["state"],
    )  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if "poll_failed" in line]
    assert len(complaints) == 1, done.stderr
    assert words in complaints[0]
    assert "secret-canary" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("credential", "expected"),
    [
        ("{community: {env: FM_WRONG}}", "community"),
        (
            (
                "{version: 3, user: sha256aes, auth: sha256, auth_key: {env: FM_WRONG}, "
                "priv: aes128, priv_key: {env: FM_PRIV}}"
            ),
            "authentication",
        ),
        ("{version: 3, user: nobody, auth: sha256, auth_key: {env: FM_WRONG}}", "authentication"),
    ],
)  # fmt: skip
def test_wrong_credentials_are_told_apart(tmp_path: Path, credential: str, expected: str) -> None:
    """A wrong community is silence that mentions it; a wrong key is named; no secret leaks."""
    with snmpd(tmp_path / "agent") as agent:
        config = tmp_path / "fabricmon.yaml"
        config.write_text(
            f"interval: 3s\ncredentials:\n  bad: {credential}\ntargets:\n"
            f"  - {{collector: snmp, name: agent, address: '{agent.address}', credential: bad}}\n"
        )
        done = fabricmon("once", "-c", str(config), FM_WRONG="wrong-canary-1", FM_PRIV=PRIV_KEY)
    assert done.returncode == 1
    assert expected in done.stdout.lower()
    assert "wrong-canary" not in done.stdout + done.stderr


def test_a_bad_config_is_one_line(tmp_path: Path) -> None:
    """File, line, key and what is allowed; exit 2; nothing else."""
    config = tmp_path / "bad.yaml"
    config.write_text("interval: 10s\nfabrics:\n  - {name: a, technology: token-ring}\n")
    done = fabricmon("check", str(config))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"{config}:3: fabrics[0].technology" in done.stderr
