"""Every parser of bytes that come from outside, and good inputs to begin from.

A parser takes anything: it reads it, tells bad records, or raises `FormatError` or `ConfigError`.
Whatever else it raises, or how long it takes, is a crash.
"""

from __future__ import annotations

import gzip
import io
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from support.gnmi import RECEIVED
from support.gnmi import read as read_gnmi

from fabricmon import config, yamlfile
from fabricmon.api import Context
from fabricmon.errors import FabricmonError, FormatError
from fabricmon.formats import cabling, compressed, interchange, jobs, promtext
from fabricmon.formats.base import Layout
from fabricmon.formats.gnmi import gnmi_path
from fabricmon.formats.gnmi.gnmi_notification import NotificationReader, write_path
from fabricmon.formats.gnmi.gnmi_proto import messages
from fabricmon.formats.gnmi.gnmi_record import Recorder
from fabricmon.formats.infiniband import ibdumps, mad
from fabricmon.formats.infiniband.tools import ibprom
from fabricmon.formats.lines.series_table import SeriesTable
from fabricmon.formats.snmp import ber, snmp, snmp_lockstep, snmp_usm, snmprec
from fabricmon.formats.system import ethtool
from fabricmon.formats.tables import columns, longtable
from fabricmon.mappings.gnmi import GnmiPaths
from fabricmon.record import open_source
from fabricmon.selfmon import Reporter
from fabricmon.testing import ManualClock
from fabricmon.web.webfile import WebFile
from fuzz import seeds

if TYPE_CHECKING:
    from collections.abc import Callable

_DOCS = Path(__file__).parents[2] / "docs" / "examples"
_PATHS = GnmiPaths.load("openconfig")
_SCRATCH = Path(tempfile.mkdtemp(prefix="fabricmon-fuzz-"))


@dataclass(frozen=True, slots=True)
class Parser:
    """How to read, and what a good input looks like."""

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]

    def __call__(self, data: bytes) -> None:
        """Read; a clear error is as good as a value."""
        with suppress(FabricmonError):
            self.read(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _stream(data: bytes) -> io.BufferedReader:
    return io.BufferedReader(io.BytesIO(data))  # type: ignore[arg-type] # raw enough


def _ignore(*_problem: object) -> None:
    """Bad records are told; here nobody listens."""


def _infiniband(kind: str, data: bytes) -> None:
    ibdumps.read(_text(data), _ignore, "x", kind)


def _lines(read: Callable[..., Any], data: bytes) -> None:
    list(read(_text(data).splitlines(), _ignore))


def _table(data: bytes) -> None:
    layout = Layout("x")
    for chunk in longtable.read(_stream(data), "x", layout, _ignore):
        layout.batches(chunk)


def _mapped(data: bytes) -> None:
    layout = Layout("x")
    reader = columns.Reader(columns.load(_DOCS / "columns-differences.yaml"), layout, _ignore)
    for chunk in reader.read(_stream(data), "x"):
        layout.batches(chunk)


def _packed(data: bytes) -> None:
    stream = compressed.plain(io.BytesIO(data), "x")
    for _ in compressed.lines(stream, "x", _ignore):
        pass


def _file(name: str, data: bytes) -> None:
    path = _SCRATCH / name
    path.write_bytes(data)
    for _ in open_source([path], report=Reporter(ManualClock())).items():
        pass


def _notification(data: bytes) -> None:
    recorder = Recorder(SeriesTable(Layout("t"), _PATHS), _PATHS, "dut")
    reader = NotificationReader(recorder, "dut")
    for raw in (_NOTE, data, data, _NOTE):
        with suppress(ValueError):
            reader.take_raw(raw, RECEIVED)
    recorder.samples.pack(1)
    recorder.samples.take()


def _note() -> bytes:
    response = messages().SubscribeResponse()
    response.update.timestamp = RECEIVED
    prefix = "interfaces/interface[name=e1]/state/counters"
    write_path(gnmi_path.split(prefix), response.update.prefix)
    for leaf in ("in-octets", "out-octets"):
        update = response.update.update.add()
        update.path.elem.add(name=leaf)
        update.val.uint_val = 12345
    return bytes(response.SerializeToString())


def _reply() -> bytes:
    column = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6)
    found = [snmp.Varbind((*column, index), ber.COUNTER64, 10**12 + index) for index in (1, 2, 3)]
    body = b"".join(map(snmp.encode_varbind, found))
    return snmp.message(b"public", snmp.response(snmp.MIN_REQUEST_ID, body))


def _snmp(data: bytes) -> None:
    for read in (snmp_usm.message_id_of, snmp_usm.engine_of, snmp_usm.user_of):
        with suppress(FormatError):
            read(data)
    with suppress(FormatError):
        snmp_usm.open_message(data, None)
    with suppress(FormatError):
        snmp.decode(data, snmp.pdu_of(data)[1])
    with suppress(FormatError):
        snmp_lockstep.decode([data, _REPLY], [snmp.pdu_of(data)[1], _REPLY_AT], _WANTED)


def _expected() -> np.ndarray:
    oids = [ber.encode_oid(v.oid) for v in snmp.decode(_REPLY, _REPLY_AT).varbinds]
    words = snmp_lockstep.words_for(oids)
    one = snmp_lockstep.expectation(oids, words)
    return np.stack([one, one])


def _mad(data: bytes) -> None:
    rows = np.frombuffer(data[: len(data) // 256 * 256], np.uint8).reshape(-1, 256)
    mad.status(rows)
    for fields in (*mad.FIELDS.values(), mad.NODE_INFO_FIELDS, mad.PORT_INFO_FIELDS):
        mad.decode(rows, fields)


def _config(data: bytes) -> None:
    config.accept(yamlfile.loads(_text(data), file="x"))


def _webfile(data: bytes) -> None:
    path = _SCRATCH / "web.yml"
    path.write_bytes(data)
    clock = ManualClock()
    WebFile(path, Context(clock, Reporter(clock))).load()


_NOTE = _note()
_REPLY = _reply()
_REPLY_AT = snmp.pdu_of(_REPLY)[1]
_WANTED = _expected()


def _family(read: Callable[[bytes], object], *seeds: str) -> Parser:
    return Parser(read, tuple(seed.encode() for seed in seeds))


PARSERS: dict[str, Parser] = {
    "snmp": Parser(_snmp, (_REPLY,)),
    "mad": Parser(_mad, (bytes(256), bytes(range(256)) * 2)),
    "gnmi_notification": Parser(_notification, (_NOTE,)),
    "gnmi_file": _family(read_gnmi, *seeds.GNMI),
    "perfquery": _family(partial(_infiniband, "perfquery"), seeds.PERFQUERY),
    "ibnetdiscover": _family(partial(_infiniband, "ibnetdiscover"), *seeds.IBNETDISCOVER),
    "ibqueryerrors": _family(partial(_infiniband, "ibqueryerrors"), seeds.IBQUERYERRORS),
    "iblinkinfo": _family(partial(_infiniband, "iblinkinfo"), seeds.IBLINKINFO),
    "db_csv": _family(partial(_infiniband, "ibdiagnet db_csv"), seeds.DB_CSV),
    "ibdiagnet_pm": _family(partial(_infiniband, "ibdiagnet pm"), seeds.IBDIAGNET_PM),
    "ufm": _family(partial(_infiniband, "UFM telemetry"), *seeds.UFM),
    "prometheus_page": _family(partial(_lines, promtext.ports), seeds.NODE_EXPORTER),
    "prometheus_infiniband": _family(partial(_lines, ibprom.read), seeds.UFM_PAGE),
    "ethtool": _family(partial(_lines, ethtool.interfaces), seeds.ETHTOOL),
    "snmprec": _family(partial(_lines, snmprec.read_snmprec), seeds.SNMPREC),
    "snmpwalk": _family(partial(_lines, snmprec.read_walk), seeds.SNMPWALK),
    "counters_csv": _family(_table, seeds.COUNTERS),
    "mapped_csv": _family(_mapped, seeds.MAPPED),
    "topology_json": _family(interchange.read_topology, seeds.TOPOLOGY),
    "labels_json": _family(interchange.read_labels, seeds.LABELS),
    "cabling": _family(lambda data: cabling.read(_text(data)), *seeds.CABLING),
    "jobs": _family(lambda data: jobs.read_jobs(data, _ignore), *seeds.JOBS),
    "compressed": Parser(_packed, (gzip.compress(b"a line\n" * 9, mtime=0), b"plain\n")),
    "any_file": _family(partial(_file, "dump"), seeds.COUNTERS, seeds.PERFQUERY, seeds.GNMI[0]),
    "config": _family(_config, seeds.CONFIG),
    "web_config": _family(_webfile, seeds.WEB_CONFIG),
}
"""By name: what `make fuzz NAME=` takes."""
