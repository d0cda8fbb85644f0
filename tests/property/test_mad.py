"""Management datagrams: every field is written and read at its place and width."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.formats.infiniband import mad

TABLES = [
    *mad.FIELDS.values(),
    mad.CLASS_PORT_INFO_FIELDS,
    mad.SAMPLES_FIELDS,
    mad.NODE_INFO_FIELDS,
    mad.PORT_INFO_FIELDS,
]


@given(st.sampled_from(TABLES), st.integers(0, 2**32), st.integers(1, 5))
def test_what_is_encoded_is_decoded(table: list[mad.Field], seed: int, rows: int) -> None:
    """Values come back exactly, or clipped to the top of their field."""
    values = np.random.default_rng(seed).integers(0, 1 << 63, (len(table), rows), np.uint64)
    values >>= np.random.default_rng(seed + 1).integers(0, 63, values.shape, np.uint64)
    data = np.zeros((rows, 192), np.uint8)
    mad.encode(data, table, values)
    tops = np.array([(1 << f.bits) - 1 for f in table], np.uint64)
    assert (mad.decode(data, table) == np.minimum(values, tops[:, None])).all()


@given(st.sampled_from(TABLES))
def test_fields_do_not_overlap(table: list[mad.Field]) -> None:
    """No two fields of an attribute share a bit, and all lie inside it."""
    taken: set[int] = set()
    for field in table:
        bits = set(range(field.offset, field.offset + field.bits))
        assert not bits & taken, field
        taken |= bits
    assert max(taken) < 192 * 8


@given(st.lists(st.binary(min_size=0, max_size=63), min_size=1, max_size=4))
def test_a_direct_route_stands_in_the_datagram(paths: list[bytes]) -> None:
    """Hop count and port numbers stand where switches look for them."""
    made = mad.direct_requests(mad.NODE_INFO, np.zeros(len(paths), np.uint32), paths)
    for row, path in zip(made, paths, strict=True):
        assert row[7] == len(path)
        assert bytes(row[129 : 129 + len(path)]) == path
        assert (row[1], row[3]) == (mad.SMI_DIRECT, mad.GET)
