"""Pages put together from parts that are compressed already."""

from __future__ import annotations

import gzip
import zlib

from fabricmon_exporters.prometheus import page


def test_a_page_put_together_from_deflated_parts_is_one_gzip_member() -> None:
    """Large and small pieces in any order inflate to the plain page, in one member."""
    pieces = [page.Piece(b"# a\n"), page.Piece(b"x 1\n" * 9000), page.Piece(b"# b\n")]
    pieces += [page.Piece(b"y 2\n" * 9000), page.Piece(b"")]
    made = page.assemble(pieces, openmetrics=False)
    assert made.gzipped is not None
    assert gzip.decompress(made.gzipped) == made.body
    member = zlib.decompressobj(31)
    assert member.decompress(made.gzipped) == made.body
    assert (member.eof, member.unused_data) == (True, b"")
