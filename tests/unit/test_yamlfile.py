"""The YAML reader: YAML 1.2 data with the line of everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricmon import yamlfile
from fabricmon.errors import ConfigError


class TestLoads:
    def test_scalars_follow_yaml_1_2(self) -> None:
        """`yes`, `12:30` and `0777` are words and numbers as YAML 1.2 says, not 1.1's surprises."""
        text = "a: yes\nb: 12:30:45\nc: 0x1F\nd: 1e3\ne: ~\nf: 'true'\ng: true\nh: .5\n"
        expected = {
            "a": "yes", "b": "12:30:45", "c": 31, "d": 1000.0, "e": None, "f": "true",
            "g": True, "h": 0.5,
        }  # fmt: skip
        assert expected == yamlfile.loads(text).data

    def test_every_value_knows_its_line(self) -> None:
        """Lines are those of the keys, list items included."""
        document = yamlfile.loads("a:\n  - x: 1\n    y: 2\n")
        assert 3 == document.line(("a", 0, "y"))
        assert 2 == document.line(("a", 0, "missing"))

    @pytest.mark.parametrize(
        ("text", "line", "words"),
        [
            ("a: &x 1\nb: *x\n", 1, "aliases"),
            ("a: 1\nb: 2\na: 3\n", 3, "given twice"),
            ("a: 1\nb: [1\n", 3, "expected"),
            ("a: !python/object x\n", 1, "unknown tag"),
            ("? [a]\n: 1\n", 1, "plain word"),
            ("a: " + "[" * 70 + "]" * 70, 1, "deep"),
        ],
    )
    def test_what_is_refused_names_file_and_line(self, text: str, line: int, words: str) -> None:
        """Broken and dangerous YAML is refused where it stands."""
        with pytest.raises(ConfigError, match=words) as caught:
            yamlfile.loads(text, file="some.yaml")
        assert ("some.yaml", line) == (caught.value.file, caught.value.line)


class TestLoad:
    def test_missing_file(self, tmp_path: Path) -> None:
        """A file that is not there is named."""
        with pytest.raises(ConfigError, match=r"gone\.yaml: No such file"):
            yamlfile.load(tmp_path / "gone.yaml")

    def test_not_utf8(self, tmp_path: Path) -> None:
        """Bytes that are no text are refused with their place."""
        path = tmp_path / "x.yaml"
        path.write_bytes(b"a: \xff\n")
        with pytest.raises(ConfigError, match="not UTF-8"):
            yamlfile.load(path)

    def test_byte_order_mark_is_no_content(self, tmp_path: Path) -> None:
        """Windows editors put a BOM in front; it is not part of the first key."""
        path = tmp_path / "x.yaml"
        path.write_bytes(b"\xef\xbb\xbfa: 1\n")
        assert {"a": 1} == yamlfile.load(path).data
