"""Shards: every target has exactly one daemon, and keeps it when daemons are added."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fabricmon import app, config, yamlfile
from fabricmon.cli import main
from fabricmon.errors import ConfigError
from fabricmon.runtime.inventory import Shard, shard_of

_NAMES = [f"leaf{i}.pod{i % 7}" for i in range(4000)]
_CONFIG = "fabrics: [{name: pod}]\ntargets:\n" + "".join(
    f"  - {{collector: snmp, address: 'switch{i}'}}\n" for i in range(30)
)


def _targets(shard: Shard | None) -> list[str]:
    loaded = config.accept(yamlfile.loads(_CONFIG, file="shard.yaml"))
    assembly = app.assemble(loaded, app.make_context(quiet=True), shard=shard)
    guards = assembly.fabrics["pod"].guards
    return [target.name for guard in guards for target in guard.targets]


def test_every_target_is_polled_by_exactly_one_daemon() -> None:
    """The parts that three daemons take make up the whole, and do not overlap."""
    parts = [_targets(Shard(i, 3)) for i in range(3)]
    assert sorted(_targets(None)) == sorted(name for part in parts for name in part)
    assert all(parts)


def test_parts_are_of_one_size() -> None:
    """Of 4,000 targets each of eight daemons takes its eighth, within a fifth."""
    sizes = [sum(Shard(i, 8).owns(name) for name in _NAMES) for i in range(8)]
    assert all(400 < size < 600 for size in sizes), sizes


def test_with_one_daemon_more_nothing_moves_but_what_it_takes() -> None:
    """Targets that stay keep their daemon, and with it their history."""
    before, after = ([shard_of(name, n) for name in _NAMES] for n in (5, 6))
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {5}
    assert len(moved) < len(_NAMES) / 4


def test_the_arithmetic_stays() -> None:
    """Daemons of different versions must agree, so these values may never change."""
    assert [shard_of(name, 10) for name in ("leaf1", "leaf2", "10.0.0.1:161", "ä")] == [9, 7, 9, 8]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("3/3", "the last of 3 is 2/3"),
        ("0/0", "there is none of 0"),
        ("1", "is not i/n"),
        ("-1/3", "is not i/n"),
        ("a/b", "is not i/n"),
        ("1/99999", "is not i/n"),
        ("", "is not i/n"),
    ],
)
def test_a_bad_shard_is_explained(text: str, says: str) -> None:
    """The error names the option and what would be right."""
    with pytest.raises(ConfigError, match="--shard") as caught:
        Shard.parse(text)
    assert says in str(caught.value)


def test_a_bad_shard_ends_the_command_as_wrong_usage() -> None:
    """Exit code 2 and one line on stderr, before anything listens."""
    result = CliRunner().invoke(main, ["run", "--shard", "4/4"])
    assert 2 == result.exit_code
    assert "fabricmon: --shard: '4/4': shards count from 0" in result.output
