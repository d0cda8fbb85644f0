"""What we are made of is known, locked by hash, and can be checked without a network."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import zipfile
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "deploy" / "release"))

import supply_chain  # noqa: E402 - found by the line above
from supply_chain import Package  # noqa: E402 - same

OURS = Package("lib", "1.5", ("0" * 64,))
FIXED = {"fixed": "1.5"}


def test_every_locked_package_has_a_hash_and_is_in_the_bill() -> None:
    """Of what runs; and the bill is the same every time."""
    packages = supply_chain.locked(supply_chain.RUNS)
    assert {"numpy", "scikit-learn", "pysnmp", "apscheduler"} <= {p.name for p in packages}
    assert all(package.sha256 for package in supply_chain.locked())
    bill = supply_chain.sbom(packages, "1.0")
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert [c["purl"] for c in bill["components"]] == [p.purl for p in packages]
    assert bill == supply_chain.sbom(supply_chain.locked(supply_chain.RUNS), "1.0")


def test_this_environment_is_as_locked() -> None:
    """What the tests run on is what the lock files name, file for file.

    A developer may have more beside it; CI may not.
    """
    found = list(supply_chain.strange(distributions(), supply_chain.locked()))
    if not os.environ.get("CI"):
        found = [line for line in found if "not locked" not in line]
    assert found == []


def installed(site: Path, name: str, version: str, code: bytes) -> None:
    """A distribution of one module, with its record."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (site / f"{name}.py").write_bytes(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(code).digest()).rstrip(b"=").decode()
    record = f"{name}.py,sha256={digest},{len(code)}\n{info.name}/RECORD,,\n"
    (info / "RECORD").write_text(record)


def test_what_is_strange_is_named(tmp_path: Path) -> None:
    """Not locked, another version, a changed file, a file that is gone."""
    installed(tmp_path, "lib", "1.4", b"x = 1")
    installed(tmp_path, "stray", "9", b"y = 1")
    found = lambda: list(supply_chain.strange(distributions(path=[str(tmp_path)]), [OURS]))  # noqa: E731
    assert sorted(found()) == [
        "lib is 1.4 and locked as 1.5",
        "stray 9 is installed and not locked",
    ]
    (tmp_path / "lib.py").write_bytes(b"x = 2")
    (tmp_path / "stray.py").unlink()
    assert {"lib: lib.py was changed", "stray: stray.py is gone"} <= set(found())


@pytest.mark.parametrize(
    ("affected", "hit"),
    [
        ({"versions": ["1.4", "1.5"]}, True),
        ({"versions": ["1.4"]}, False),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]}, True),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, FIXED]}]}, False),
        ({"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "1.10"}]}]}, False),
        ({"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, False),
    ],
)  # fmt: skip
def test_what_is_known_to_be_unsafe(tmp_path: Path, affected: dict[str, Any], hit: bool) -> None:
    """By the advisories' own versions and ranges; withdrawn ones are none."""
    advisory = {"id": "X-1", "affected": [{"package": {"name": "LIB"}, **affected}]}
    for withdrawn in (False, True):
        file = tmp_path / f"{withdrawn}.zip"
        with zipfile.ZipFile(file, "w") as export:
            shown = {**advisory, "withdrawn": "2026-01-01"} if withdrawn else advisory
            export.writestr("X-1.json", json.dumps(shown))
        expected = ["lib 1.5: X-1 "] if hit and not withdrawn else []
        assert list(supply_chain.unsafe([OURS], file)) == expected


def test_every_test_that_the_security_page_names_is_there() -> None:
    """A threat whose test was moved or deleted is not defended."""
    named = re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "docs/security.md").read_text())
    assert len(named) > 12
    assert [path for path in named if not (ROOT / path).is_file()] == []
