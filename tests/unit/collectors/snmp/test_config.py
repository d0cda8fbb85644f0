"""How targets are reached: clear errors before the first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.snmp_targets import collector, credential, target

from fabricmon import app
from fabricmon.api import Context, Target
from fabricmon.collectors.snmp import SnmpCollector, config
from fabricmon.collectors.snmp.config import SnmpConfig
from fabricmon.errors import ConfigError
from fabricmon.testing import check_collector

if TYPE_CHECKING:
    from pathlib import Path

KEYS = {"auth_key": "authentic", "priv_key": "very private"}


@pytest.mark.parametrize(
    ("secrets", "options", "words"),
    [
        ({}, {"version": "2c"}, "needs `community`"),
        ({"community": "x"}, {"version": "1"}, "use 2c or 3"),
        (KEYS, {}, "needs `user`"),
        (KEYS, {"user": "joe", "auth": "sha3"}, "auth 'sha3' is not known; use none, md5"),
        (KEYS, {"user": "joe", "priv": "rot13"}, "priv 'rot13' is not known"),
        ({"priv_key": "very private"}, {"user": "joe"}, "without `auth`"),
        ({"auth_key": "authentic"}, {"user": "joe", "priv": "aes"}, "`priv` needs `priv_key`"),
        ({"auth_key": "short"}, {"user": "joe"}, "fewer than 8"),
        ({"community": "x"}, {"colour": "red"}, "unknown 'colour'"),
        ({"community": "x"}, {"engine": "warp"}, "use fast or pysnmp"),
    ],
)
async def test_what_cannot_work_is_refused_at_start(
    tmp_path: Path, secrets: dict[str, str], options: dict[str, str], words: str
) -> None:
    """Each mistake is one message that names the credential and never a secret."""
    here = target("127.0.0.1:9", credential(tmp_path, secrets, **options))
    with pytest.raises(ConfigError, match=words) as caught:
        async with collector(here):
            pass
    for secret in secrets.values():
        assert secret not in str(caught.value) or len(secret) == 1


async def test_privacy_without_its_library_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where `cryptography` is missing, the message says what to install."""
    monkeypatch.setattr(config, "find_spec", lambda _name: None)
    here = target("127.0.0.1:9", credential(tmp_path, KEYS, user="joe"))
    with pytest.raises(ConfigError, match="`cryptography`: install it"):
        async with collector(here):
            pass


async def test_a_target_without_credential_is_refused() -> None:
    """There is no default community."""
    with pytest.raises(ConfigError, match="switch needs a credential"):
        async with collector(Target("test", "switch", "127.0.0.1:9")):
            pass


async def test_an_unknown_mapping_is_refused(tmp_path: Path) -> None:
    """The message names those that exist."""
    here = target("127.0.0.1:9", credential(tmp_path, {"community": "x"}), mapping="nope")
    with pytest.raises(ConfigError, match=r"'nope' is not known; use arista, "):
        async with collector(here):
            pass


async def test_the_collector_keeps_its_promises(tmp_path: Path, context: Context) -> None:
    """The contract every collector must pass, on a target that does not answer."""
    here = target("127.0.0.1:9", credential(tmp_path, {"community": "x"}))
    settings = SnmpConfig(timeout=0.05, retries=0)  # type: ignore[arg-type]
    await check_collector(lambda: SnmpCollector(settings, [here], context), here)


@pytest.mark.parametrize(
    ("fabric", "section", "queues"),
    [
        ("intent: {lossless_queues: [4, 3]}", "", [3, 4]),
        ("intent: {lossless_queues: [3]}", "collectors: {snmp: {queues: [0, 3]}}", [0, 3]),
        ("technology: roce", "", []),
    ],
)
def test_lossless_priorities_are_the_fabrics_own(
    tmp_path: Path, fabric: str, section: str, queues: list[int]
) -> None:
    """What the fabric declares lossless is read in every poll, unless the config names others."""
    (tmp_path / "ro").write_text("public", encoding="utf-8")
    path = tmp_path / "fabricmon.yaml"
    path.write_text(
        f"fabrics: [{{name: f, {fabric}}}]\n{section}\n"
        f"credentials: {{ro: {{community: {{file: {tmp_path}/ro}}}}}}\n"
        "targets: [{collector: snmp, address: leaf1, credential: ro}]\n",
        encoding="utf-8",
    )
    loaded = app.load(path)
    (guard,) = app.assemble(loaded, app.make_context(quiet=True)).fabrics["f"].guards
    assert guard.key[1].queues == queues
