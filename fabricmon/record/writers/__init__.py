"""The stream of a fabric written as files that other tools write, one module a family."""

from fabricmon.record.writers.base import FileWriter
from fabricmon.record.writers.dump import DumpWriter, RecordingWriter
from fabricmon.record.writers.gnmic import EventWriter, MessageWriter
from fabricmon.record.writers.infiniband import ErrorsWriter, PerfqueryWriter
from fabricmon.record.writers.snmprec import SnmprecWriter

WRITERS: dict[str, type[FileWriter]] = {
    "interchange": DumpWriter,
    "recording": RecordingWriter,
    "perfquery": PerfqueryWriter,
    "ibqueryerrors": ErrorsWriter,
    "gnmic-event": EventWriter,
    "gnmic-json": MessageWriter,
    "snmprec": SnmprecWriter,
}
"""By the name that `simulate --as` takes."""

__all__ = ["WRITERS", "FileWriter"]
