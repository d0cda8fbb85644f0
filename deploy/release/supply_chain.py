"""What fabricmon is made of, and whether it is still that. Works without a network.

    python deploy/release/supply_chain.py sbom > sbom.json
    python deploy/release/supply_chain.py audit [ADVISORIES.zip]

`sbom` prints a CycloneDX 1.6 bill of materials of what is locked. `audit` holds the environment it
runs in against the lock files: versions, files by their hashes, nothing beside; and, given the
export of advisories that osv.dev keeps for PyPI (`PyPI/all.zip`), names what is known to be unsafe.
Exits 1 when something is wrong.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import zipfile
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-fuzz.lock")
RUNS = LOCKS[:1]
"""What a user installs; the rest is for developers."""
OURS = frozenset({"fabricmon", "pip", "setuptools"})
"""Beside the locks: ourselves, and what `python -m venv` brings."""
_PACKAGE = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Package:
    """One locked package."""

    name: str
    version: str
    sha256: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def normal(name: str) -> str:
    """A project's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(files: Iterable[str] = LOCKS) -> list[Package]:
    """Every package of these lock files, by name."""
    found = {}
    for file in files:
        text = (ROOT / file).read_text()
        starts = list(_PACKAGE.finditer(text))
        ends = [start.start() for start in starts[1:]] + [len(text)]
        for start, end in zip(starts, ends, strict=True):
            hashes = tuple(_HASH.findall(text, start.end(), end))
            package = Package(normal(start["name"]), start["version"], hashes)
            found[package.name, package.version] = package
    return [found[key] for key in sorted(found)]


def sbom(packages: Iterable[Package], version: str) -> dict[str, Any]:
    """The bill of materials: the same for the same lock file."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "fabricmon", "version": version},
        },
        "components": [
            {
                "type": "library",
                "bom-ref": package.purl,
                "name": package.name,
                "version": package.version,
                "purl": package.purl,
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in package.sha256],
            }
            for package in packages
        ],
    }


def strange(installed: Iterable[Distribution], packages: Iterable[Package]) -> Iterator[str]:
    """What is installed and not locked, in another version, or changed since it was installed."""
    versions: dict[str, set[str]] = {}
    for package in packages:
        versions.setdefault(package.name, set()).add(package.version)
    for distribution in installed:
        name = normal(distribution.metadata["Name"])
        if name in OURS:
            continue
        if name not in versions:
            yield f"{name} {distribution.version} is installed and not locked"
        elif distribution.version not in versions[name]:
            wanted = " or ".join(sorted(versions[name]))
            yield f"{name} is {distribution.version} and locked as {wanted}"
        yield from changed(distribution, name)


def changed(distribution: Distribution, name: str) -> Iterator[str]:
    """Files of a distribution that are not what its own record says."""
    for file in distribution.files or ():
        if file.hash is None or file.suffix == ".pyc":
            continue
        path = Path(str(distribution.locate_file(file)))
        if not path.is_file():
            yield f"{name}: {file} is gone"
            continue
        digest = hashlib.new(file.hash.mode, path.read_bytes()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            yield f"{name}: {file} was changed"


def unsafe(packages: Iterable[Package], advisories: Path) -> Iterator[str]:
    """What an export of osv.dev says of these packages."""
    by_name: dict[str, list[Package]] = {}
    for package in packages:
        by_name.setdefault(package.name, []).append(package)
    with zipfile.ZipFile(advisories) as export:
        for name in sorted(export.namelist()):
            advisory = json.loads(export.read(name))
            for affected in () if "withdrawn" in advisory else advisory.get("affected", ()):
                for package in by_name.get(normal(affected["package"]["name"]), ()):
                    if _hits(affected, package.version):
                        summary = advisory.get("summary", "")
                        yield f"{package.name} {package.version}: {advisory['id']} {summary}"


def _hits(affected: dict[str, Any], version: str) -> bool:
    return version in affected.get("versions", ()) or any(
        _within(given["events"], Version(version))
        for given in affected.get("ranges", ())
        if given["type"] == "ECOSYSTEM"
    )


def _within(events: Iterable[dict[str, str]], version: Version) -> bool:
    """Whether the last event at or before `version` introduced the flaw."""
    inside = False
    for event in events:
        if "introduced" in event and Version(event["introduced"]) <= version:
            inside = True
        if "fixed" in event and Version(event["fixed"]) <= version:
            inside = False
        if "last_affected" in event and Version(event["last_affected"]) < version:
            inside = False
    return inside


def main(arguments: list[str]) -> int:
    """`sbom`, or `audit` with or without advisories."""
    if arguments[:1] == ["sbom"]:
        from fabricmon import __version__  # noqa: PLC0415 - `audit` may run beside a broken one

        sys.stdout.write(f"{json.dumps(sbom(locked(RUNS), __version__), indent=1)}\n")
        return 0
    if arguments[:1] != ["audit"]:
        sys.stderr.write(__doc__ or "")
        return 2
    problems = list(strange(distributions(), locked()))
    for advisories in arguments[1:2]:
        problems += unsafe(locked(RUNS), Path(advisories))
    told = problems or [f"good: {len(locked())} packages are as locked"]
    sys.stdout.write("".join(f"{line}\n" for line in told))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
