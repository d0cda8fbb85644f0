"""The config file: every error names file, line, key and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricmon import config
from fabricmon.errors import ConfigError
from fabricmon.model.topology import Ecn, Technology

_GOOD = """\
interval: 5s
fabrics:
  - name: pod1
    technology: infiniband
  - name: store
    technology: roce
    intent: {lossless_queues: [4, 3], ecn: required}
credentials:
  ro: {community: {env: COMMUNITY}, version: 2c}
targets:
  - {fabric: store, collector: snmp, address: leaf1, credential: ro}
maintenance:
  - {device: leaf1, from: 2026-01-01T00:00:00Z, to: 2026-01-01T02:00:00Z}
"""


def _load(tmp_path: Path, text: str) -> config.Loaded:
    path = tmp_path / "fabricmon.yaml"
    path.write_text(text)
    return config.load(path)


class TestLoad:
    def test_good(self, tmp_path: Path) -> None:
        """What is written arrives as the model's own types."""
        loaded = _load(tmp_path, _GOOD).config
        assert (5.0, Technology.INFINIBAND) == (loaded.interval, loaded.fabrics[0].technology)
        intent = loaded.fabrics[1].intent.intent()
        assert ((3, 4), Ecn.REQUIRED) == (intent.lossless_queues, intent.ecn)
        assert {"version": "2c"} == loaded.credentials["ro"].options()
        assert ["community"] == list(loaded.credentials["ro"].secrets())
        window = loaded.maintenance[0].window()
        assert 2 * 3600 * 10**9 == window.end_ns - window.start_ns

    def test_empty_file_is_good(self, tmp_path: Path) -> None:
        """Everything has a default."""
        assert 10.0 == _load(tmp_path, "").config.interval

    @pytest.mark.parametrize(
        ("text", "line", "key", "words"),
        [
            ("intervall: 5s\n", 1, "intervall", "unknown key; allowed here: cluster"),
            ("interval: 5x\n", 1, "interval", "write it as 10s"),
            (
                "fabrics:\n  - name: a\n    technology: rocce\n",
                3, "fabrics[0].technology", "'roce'",
            ),
            ("fabrics:\n  - technology: roce\n", 2, "fabrics[0].name", "required"),
            ("fabrics: [{name: a}, {name: a}]\n", 1, "fabrics[1].name", "given twice"),
            ("targets:\n  - {collector: snmp}\n", 2, "targets[0]", "exactly one of address"),
            (
                "targets:\n  - {collector: snmp, address: x, credential: ro}\n",
                2, "targets[0].credential", "credentials are: none",
            ),
            ("credentials:\n  ro: {community: public}\n", 2, "credentials.ro", "is a secret"),
            (
                "fabrics: [{name: a}, {name: b}]\ntargets:\n  - {collector: snmp, address: x}\n",
                3, "targets[0]", "say which fabric: a, b",
            ),
            (
                "targets:\n  - {collector: s, address: x}\n  - {collector: s, address: x}\n",
                3, "targets[1]", "given twice",
            ),
            ("- 1\n", 1, "", "a config is a mapping"),
        ],
    )  # fmt: skip
    def test_bad(self, tmp_path: Path, text: str, line: int, key: str, words: str) -> None:
        """One clear message that says where and what is allowed."""
        with pytest.raises(ConfigError) as caught:
            _load(tmp_path, text)
        assert (line, key) == (caught.value.line, caught.value.key)
        assert words in str(caught.value)
        assert str(caught.value).startswith(f"{tmp_path / 'fabricmon.yaml'}:{line}: ")
