"""Write, read and replay: own recordings, interchange dumps, and the files people have.

`Writer` records a stream; `Recording` reads it back; `open_source` looks at any files and gives the
stream that is in them; `write` makes files of other tools' formats from a stream.
"""

from fabricmon.record.recording import Recording
from fabricmon.record.source import open_source
from fabricmon.record.write import FORMATS, write
from fabricmon.record.writer import Writer

__all__ = ["FORMATS", "Recording", "Writer", "open_source", "write"]
