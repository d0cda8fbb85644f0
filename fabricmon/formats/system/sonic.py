"""SONiC's databases as dumps and answers: redis keys, OIDs, and the maps that give them names.

One key holds one port's or queue's counters under an OID, which only the name maps of the same
database (one per ASIC) translate. Everything becomes a path of one form: `/COUNTERS/port/FIELD`,
`/COUNTERS/queue/FIELD`, `/COUNTERS/pg/FIELD`, with the port's name and the index as keys.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fabricmon.formats.gnmi.gnmi_path import Element
    from fabricmon.formats.gnmi.gnmi_record import Recorder

DATABASES = frozenset({"COUNTERS_DB", "APPL_DB", "STATE_DB", "CONFIG_DB", "OTHERS", "OC-YANG"})
"""What SONiC's server wants as the target of a path: a database, not a device."""

_COUNTERS = frozenset({"COUNTERS", "PERIODIC_WATERMARKS"})
_TABLES = frozenset({"PORT_TABLE", "LLDP_ENTRY_TABLE"})
_NAME_MAPS = {
    "COUNTERS_PORT_NAME_MAP",
    "COUNTERS_QUEUE_NAME_MAP",
    "COUNTERS_PG_NAME_MAP",
    "COUNTERS_VOQ_NAME_MAP",
}
_FIELD = re.compile(r"(SAI_|PFC_WD_(?!DB$)|EST_PORT_)")
_OWNER = re.compile(r"(?P<port>[^:]+(?::(?=\D)[^:]+)?)(?::(?P<index>\d+))?$")
_KEY = re.compile(r"([A-Z_]+)[:|](.+)$")
_MAX_NAMES = 200_000


class Names:
    """OIDs and aliases of one device's ASIC, learnt from its maps."""

    def __init__(self, beside: Names | None = None) -> None:
        """Empty: dumps bring their maps along, or a file before or `beside` them does."""
        self.oids: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self._beside = beside

    def learn(self, table: str, content: Mapping[str, Any]) -> None:
        """Take one name map."""
        if len(self.oids) < _MAX_NAMES:
            self.oids.update({str(oid): name for name, oid in content.items()})
            if table == "COUNTERS_VOQ_NAME_MAP":
                self.aliases.update({name: name.rpartition("|")[2] for name in content})

    def owner(self, text: str) -> str | None:
        """`Ethernet0` or `Ethernet0:3` of an OID, alias or name; None for unknown OIDs."""
        if text.startswith("oid:"):
            found = self.oids.get(text)
            return found if found or self._beside is None else self._beside.owner(text)
        text = text.rpartition("|")[2]
        port, colon, index = text.partition(":")
        port = self.aliases.get(port, port)
        if self._beside is not None:
            port = self._beside.aliases.get(port, port)
        return port + colon + index


def is_dump(document: Mapping[str, Any]) -> bool:
    """Whether a JSON object is (part of) a SONiC database."""
    for key, value in document.items():
        table = _KEY.match(key)
        if key in _NAME_MAPS or (table and table[1] in _COUNTERS | _TABLES | {"PORT"}):
            return True
        if isinstance(value, dict) and any(_FIELD.match(field) for field in value):
            return True
        if isinstance(value, dict) and key in _COUNTERS:
            return True
        if isinstance(value, str) and (value.startswith("oid:0x") or _FIELD.match(key)):
            return True
    return False


def take(recorder: Recorder, document: Mapping[str, Any], file: str = "") -> bool:
    """Take a dump or an answer. Device and time are in the file's name, if anywhere."""
    dump = name_of(file)
    folder = PurePath(file).parent
    device = dump.device or (folder.name if dump.time_ns else "") or recorder.device
    # Maps in a file that says of no device whose they are serve all files of the folder.
    beside = recorder.names.setdefault((str(folder), dump.namespace), Names())
    names = recorder.names.setdefault((device, dump.namespace), Names(beside))
    flat = {key: _unwrapped(value) for key, value in document.items()}
    _learn(names if dump.device or dump.time_ns or not is_map(file) else beside, flat)
    loose = {key: value for key, value in flat.items() if _FIELD.match(key)}
    if loose:  # the fields of one key, and the key is not there
        flat = {"": loose}
    for key, value in flat.items():
        if isinstance(value, dict):
            for path, keys, time_ns, leaf in _entry(names, key, value):
                recorder.values(device, time_ns or dump.time_ns, [(path, keys, leaf)])
    return True


def _learn(names: Names, document: Mapping[str, Any]) -> None:
    if document and all(isinstance(v, str) and v.startswith("oid:0x") for v in document.values()):
        names.learn("", document)
    for key, value in document.items():
        if not isinstance(value, dict):
            continue
        if key in _NAME_MAPS:
            names.learn(key, value)
        found = _KEY.match(key)
        if found and found[1] in ("PORT", "PORT_TABLE") and isinstance(value.get("alias"), str):
            names.aliases[value["alias"]] = found[2]


def _unwrapped(value: Any) -> Any:
    """What redis-dump wraps as `{"type": "hash", "value": {…}}`."""
    if isinstance(value, dict) and "value" in value and "type" in value:
        return value["value"]
    return value


def _entry(
    names: Names, key: str, value: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, str], int, Any]]:
    """Path, keys, time and value of every leaf under one key."""
    found = _KEY.match(key)
    if key in _COUNTERS:  # gnmi_cli: a tree of tables, owners and fields
        for owner, fields in value.items():
            if isinstance(fields, dict):
                yield from _fields(names, key, owner, fields)
    elif found and found[1] in _COUNTERS | _TABLES:
        yield from _fields(names, found[1], found[2], value)
    elif found is None or key.startswith("oid:") or any(map(_FIELD.match, value)):
        yield from _fields(names, "COUNTERS", key, value)


def _fields(
    names: Names, table: str, owner: str, fields: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, str], int, Any]]:
    name = names.owner(owner)
    for field, value in fields.items():
        time_ns = 0
        leaf = value
        if isinstance(value, dict) and "value" in value:
            time_ns, leaf = stamp_ns(str(value.get("timestamp", ""))), value["value"]
        if isinstance(leaf, dict | list):
            continue
        placed = place(table, name or "", field)
        if placed is not None:
            yield (*placed, time_ns, leaf)


def place(table: str, owner: str, field: str) -> tuple[str, dict[str, str]] | None:
    """The path and keys of a field; without keys where its owner has no name."""
    if table in _TABLES:
        return f"/{table}/port/{field}", {"port_name": owner}
    if field.startswith(("SAI_QUEUE_", "PFC_WD_")):
        kind = "queue"
    elif field.startswith("SAI_INGRESS_PRIORITY_GROUP_"):
        kind = "pg"
    elif field.startswith(("SAI_PORT_", "EST_PORT_")):
        kind = "port"
    elif _FIELD.match(field):
        return f"/COUNTERS/other/{field}", {}  # of switches, ACLs, routes: nobody asks for them
    else:
        return None
    found = _OWNER.match(owner)
    keys: dict[str, str] = {}
    if found is not None:
        keys = {f"{kind}_name": found["port"]}
        if found["index"]:
            keys[f"{kind}_index"] = found["index"]
    return f"/COUNTERS/{kind}/{field}", keys


def canonical(elements: Sequence[Element]) -> tuple[str, dict[str, str]] | None:
    """The same of a virtual path such as `COUNTERS/Ethernet68/Queues/Ethernet68:3/FIELD`."""
    if len(elements) < 3 or elements[0].name not in _COUNTERS | _TABLES:
        return None
    if any(keys for _, keys in elements):
        return None  # of one form already
    return place(elements[0].name, elements[-2].name.rpartition("|")[2], elements[-1].name)


class DumpName(NamedTuple):
    """What a dump's file name says: `leaf1_counters_db_asic0_20251130T101500Z.json`."""

    device: str
    namespace: str
    time_ns: int


_STAMP = re.compile(
    r"(?<!\d)(\d{4})-?([01]\d)-?([0-3]\d)[T_.-]?([0-2]\d)[-:.]?(\d\d)[-:.]?(\d\d)Z?"
)
_EPOCH = re.compile(r"(?<!\d)(1\d{9}(?:\d{3}){0,3})(?!\d)")
_MAP = re.compile(r"(?:name|alias)s?[_-]?maps?(?![a-z])", re.IGNORECASE)
_ASIC = re.compile(r"asic\d+", re.IGNORECASE)
_WORDS = re.compile(
    r"(?:sonic|redis|mock|tables|tests|portstat|counters|appl|state|db|dump|json|gz|zst|names?|maps?"
    r"|port|queue|pg|voq|fabric|alias)(?![a-z])"
    r"|[_.\s-]+",
    re.IGNORECASE,
)


def is_map(file: str) -> bool:
    """Whether a file, by its name, gives others their names. Such are best read first."""
    return _MAP.search(PurePath(file).name) is not None


def name_of(file: str) -> DumpName:
    """Device, ASIC and time as far as a file's name says them."""
    name = PurePath(file).name
    for suffix in (".gz", ".zst", ".json", ".txt"):
        name = name.removesuffix(suffix)
    asic = _ASIC.search(name)
    time_ns = 0
    if found := _STAMP.search(name):
        time_ns = _utc_ns(*map(int, found.groups()))
    elif found := _EPOCH.search(name):
        time_ns = int(found[1]) * 10 ** (19 - len(found[1]))
    if not time_ns and not is_map(file):
        return DumpName("", asic[0].lower() if asic else "", 0)
    rest = name.replace(found[0], " ") if found else name
    rest = _ASIC.sub(" ", rest)
    words = [
        word
        for word in re.split(r"[\s_]+", rest)
        if not all(_WORDS.fullmatch(part) for part in word.strip(".").split("-") if part)
    ]
    return DumpName("_".join(words).strip("-. "), asic[0].lower() if asic else "", time_ns)


def _utc_ns(*parts: int) -> int:
    try:
        return int(datetime(*parts, tzinfo=UTC).timestamp()) * 10**9  # type: ignore[misc, arg-type]
    except ValueError:
        return 0


_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T -](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")


def stamp_ns(text: str) -> int:
    """Nanoseconds of a UTC time as gnmi_cli prints it; 0 for none."""
    found = _RFC3339.match(text)
    if found is None:
        return 0
    whole = _utc_ns(*map(int, found.groups()[:6]))
    return whole + int((found[7] or "0").ljust(9, "0")) if whole else 0
