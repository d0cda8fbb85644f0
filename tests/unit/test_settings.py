"""What users write with: durations, sizes, rates, secrets, and errors that help."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fabricmon.errors import ConfigError
from fabricmon.settings import BitRate, Secret, Settings, Size, masked, parse_duration


class TestDuration:
    @pytest.mark.parametrize(
        ("text", "seconds"), [("10s", 10), ("1m30s", 90), ("250ms", 0.25), ("1d", 86400), (5, 5)]
    )
    def test_reads(self, text: object, seconds: float) -> None:
        """Durations are written as Prometheus people write them."""
        assert seconds == parse_duration(text)

    @pytest.mark.parametrize("text", ["", "10", "10x", "s", "-1s", "1 s", "1s1", None, True])
    def test_refuses(self, text: object) -> None:
        """Anything else is refused with the right spelling."""
        with pytest.raises(ValueError, match="write it as 10s"):
            parse_duration(text)

    @given(st.text(max_size=12))
    def test_never_breaks(self, text: str) -> None:
        """Any text gives seconds or a ValueError, nothing else."""
        with suppress(ValueError):
            assert parse_duration(text) >= 0


class _Sized(Settings):
    size: Size = 0
    rate: BitRate = 1


class TestUnits:
    def test_sizes_are_binary_and_rates_decimal(self) -> None:
        """64MiB is 2^26 bytes; 400G is 4e11 bits per second."""
        parsed = _Sized.model_validate({"size": "64MiB", "rate": "400G"})
        assert (1 << 26, 400_000_000_000) == (parsed.size, parsed.rate)

    def test_nonsense_is_refused(self) -> None:
        """A word is no rate."""
        with pytest.raises(ValidationError):
            _Sized.model_validate({"rate": "fast"})


class TestSecret:
    def test_never_prints(self, tmp_path: Path) -> None:
        """Only where the secret lives is shown, not what it is."""
        path = tmp_path / "key"
        path.write_text("canary-1234\n")
        secret = Secret(file=path)
        assert "canary-1234" == secret.reveal()
        shown = f"{secret!r} {secret} {secret.model_dump_json()}"
        assert "canary" not in shown

    def test_what_repeats_it_is_masked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Once revealed, it and its longer words are masked in any text; other words stay."""
        others: list[str] = []  # what other tests revealed is none here
        monkeypatch.setattr("fabricmon.settings._concealed", others)
        path = tmp_path / "key"
        path.write_text("Token 7f3a-pirol-99\n")
        assert masked("sent 7f3a-pirol-99") == "sent 7f3a-pirol-99"
        Secret(file=path).reveal()
        assert masked("sent 7f3a-pirol-99, refused") == "sent <secret>, refused"
        assert masked("Token 7f3a-pirol-99 is wrong") == "<secret> is wrong"

    def test_is_read_again(self, tmp_path: Path) -> None:
        """A renewed file is used at the next connect."""
        path = tmp_path / "key"
        path.write_text("old")
        secret = Secret(file=path)
        secret.reveal()
        path.write_text("new")
        assert "new" == secret.reveal()

    def test_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A missing variable is named."""
        monkeypatch.delenv("FM_TEST_KEY", raising=False)
        with pytest.raises(ConfigError, match="FM_TEST_KEY is not set"):
            Secret(env="FM_TEST_KEY").reveal()

    def test_needs_one_source(self) -> None:
        """Neither none nor two."""
        for given_ in ({}, {"file": "a", "env": "b"}):
            with pytest.raises(ValidationError, match="either `file` or `env`"):
                Secret.model_validate(given_)
