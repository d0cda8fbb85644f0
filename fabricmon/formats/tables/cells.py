"""CSV as Arrow batches of text cells, and whole columns of cells as numbers.

Cells are read as text, so that one that is no number costs its row and not the file. Empty, `null`,
`None`, `NaN` and `N/A` are "nothing there", which is no fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fabricmon.errors import FormatError
from fabricmon.formats.base import BadRecord

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fabricmon.formats.base import Bad

_BLOCK = 8 << 20
_ANY = "latin-1"
"""Read like this, no byte is wrong; `texts` turns what is a name into what it was meant as."""
_EMPTY = ("", "null", "NULL", "None", "nan", "NaN", "N/A", "NA", "n/a", "-")
_WHOLE = r"^[+-]?[0-9]{1,20}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


@dataclass(frozen=True, slots=True)
class Block:
    """A block of rows. `line(row)` is where row `row` of it stands in the file, 1-based."""

    batch: Any
    first: int
    skipped: list[int]

    def line(self, row: int) -> int:
        """Line of the file; a quoted cell with line breaks in it counts as one line."""
        at = self.first + row
        for line in self.skipped:
            if line > at:
                break
            at += 1
        return at


@dataclass(slots=True)
class Cells:
    """A CSV file with a header as blocks of text columns, in bounded memory."""

    stream: io.BufferedReader
    file: str
    bad: Bad
    delimiter: str = ","
    columns: Sequence[str] = ()
    """Only these are read; all, if none are named."""
    encoding: str = "utf-8"
    _skipped: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Block]:
        """Raises `FormatError` where it is no CSV at all; rows of a wrong width are told."""
        import pyarrow as pa  # noqa: PLC0415 - 50 MB that other formats do not need
        from pyarrow import csv  # noqa: PLC0415

        header = self.stream.peek(1 << 16).split(b"\n", 1)[0].decode(self.encoding, "replace")
        header = header.removeprefix("\ufeff")
        names = [name.strip().strip('"') for name in header.strip().split(self.delimiter)]
        wanted = list(self.columns) or names
        for name in wanted:
            if names.count(name) != 1:
                what = "twice the column" if name in names else "no column"
                raise FormatError(f"has {what} {name!r}", file=self.file, line=1)
        try:
            reader = csv.open_csv(
                self.stream,
                csv.ReadOptions(
                    use_threads=False,
                    block_size=_BLOCK,
                    column_names=names,
                    skip_rows=1,
                    encoding=_ANY,
                ),
                csv.ParseOptions(delimiter=self.delimiter, invalid_row_handler=self._invalid),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    include_columns=wanted,
                    strings_can_be_null=False,
                ),
            )
            first = 2
            for batch in reader:
                yield Block(batch, first, self._skipped)
                first += batch.num_rows
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return
            raise FormatError(f"not readable as CSV: {error}", file=self.file) from error

    def _invalid(self, row: Any) -> str:
        # With the header skipped, Arrow numbers rows as an editor does.
        line = row.number or 0
        self._skipped.append(line)
        reason = f"{row.actual_columns} cells where {row.expected_columns} are due"
        self.bad(BadRecord(self.file, line, reason))
        return "skip"


def texts(array: Any, encoding: str = "") -> tuple[NDArray[np.int64], list[str]]:
    """int64[M] into the distinct texts; empty where there is nothing.

    `encoding` is that of the file the cells came from; none for texts that are decoded already.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `Cells`

    if not pa.types.is_dictionary(array.type):
        array = array.cast(pa.string()).dictionary_encode()
    distinct = [text or "" for text in array.dictionary.cast(pa.string()).to_pylist()]
    if encoding:
        distinct = [text.encode(_ANY, "replace").decode(encoding, "replace") for text in distinct]
    code = array.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    return code.astype(np.int64), [*distinct, ""]


def numbers(array: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """float64[M], which are finite numbers, and which are empty."""
    import pyarrow as pa  # noqa: PLC0415 - see `Cells`
    import pyarrow.compute as pc  # noqa: PLC0415

    empty = array.is_null(nan_is_null=True) if pa.types.is_floating(array.type) else array.is_null()
    if _is_text(array):
        text = pc.utf8_trim_whitespace(_plain(array))
        empty = pc.or_(empty, pc.is_in(text, pa.array(_EMPTY)))
        good = pc.match_substring_regex(text, _NUMBER).fill_null(False)  # noqa: FBT003 - Arrow's API
        array = pc.if_else(good, text, "nan")
    values = (
        array.cast(pa.float64(), safe=False).fill_null(float("nan")).to_numpy(zero_copy_only=False)
    )
    values = np.ascontiguousarray(values, np.float64)
    return values, np.isfinite(values), empty.to_numpy(zero_copy_only=False)


def integers(array: Any, *, unsigned: bool = False) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """int64[M] (or uint64[M]) and which of them were whole numbers that fit.

    A float is taken where it is whole: tables that went through pandas have them.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `Cells`

    dtype = np.uint64 if unsigned else np.int64
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ns"), safe=False).cast(pa.int64())
    if _is_text(array):
        return _whole_texts(array, dtype)
    good = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_integer(array.type):
        values = array.fill_null(0).to_numpy(zero_copy_only=False)
        if unsigned:
            good &= values >= 0
        elif values.dtype == np.uint64:
            good &= values <= np.iinfo(np.int64).max
        return values.astype(dtype), good
    if pa.types.is_decimal(array.type):
        return _whole_texts(array.cast(pa.string()), dtype)
    return _whole_floats(array, dtype)


def _whole_floats(array: Any, dtype: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    level, good, _ = numbers(array)
    limits = np.iinfo(dtype)
    good &= (level >= limits.min) & (level < float(limits.max)) & (level == np.floor(level))
    return np.where(good, level, 0.0).astype(dtype), good


def _whole_texts(array: Any, dtype: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    import pyarrow as pa  # noqa: PLC0415 - see `Cells`
    import pyarrow.compute as pc  # noqa: PLC0415

    text = pc.utf8_trim_whitespace(_plain(array))
    whole = pc.match_substring_regex(text, _WHOLE).fill_null(False)  # noqa: FBT003 - Arrow's API
    good = whole.to_numpy(zero_copy_only=False).copy()
    kept = pc.if_else(whole, text, "0")
    try:
        to = pa.uint64() if dtype is np.uint64 else pa.int64()
        values = kept.cast(to).to_numpy(zero_copy_only=False).astype(dtype)
    except pa.ArrowInvalid:  # a sign or too many digits somewhere: find where
        values = np.zeros(len(good), dtype)
        limits = np.iinfo(dtype)
        for row, cell in enumerate(kept.to_pylist()):
            good[row] &= limits.min <= int(cell) <= limits.max
            values[row] = int(cell) if good[row] else 0
    rest = ~good
    if rest.any():
        level, fits = _whole_floats(pc.if_else(whole, "nan", text), dtype)
        values, good = np.where(rest & fits, level, values), good | fits
    return values, good


def _is_text(array: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415 - see `Cells`

    if pa.types.is_dictionary(array.type):
        return _is_text(array.dictionary)
    return bool(pa.types.is_string(array.type) or pa.types.is_large_string(array.type))


def _plain(array: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - see `Cells`

    return array.cast(pa.string())
