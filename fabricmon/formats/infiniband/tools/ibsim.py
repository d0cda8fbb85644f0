"""The wire protocol of ibsim (linux-rdma/ibsim, `include/ibsim.h`): names, and two messages.

Unix datagrams in the abstract namespace: `NAME:ctl` takes 80-byte control messages; `NAME:out<i>`
and the client's `NAME:in<pid>` exchange 288-byte ones: destination and source LID, destination and
source queue pair, status, padding, a 64-bit length, and the 256 bytes of the management datagram.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from fabricmon.formats.infiniband import mad

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONTROL = struct.Struct("=IIII64s")
"""magic, client, type, length of the data, data"""
MAGIC = 0xDEADBEEF
ERROR, CONNECT, DISCONNECT, GET_VENDOR = 0, 1, 2, 4
GET_NODEINFO, GET_PORTINFO, SET_ISSM, GET_PKEYS = range(7, 11)
WHOLE_DATAGRAMS = 0x100
"""Said when attaching, by clients that see all 256 bytes. libumad2sim, which `ibsim-run` puts
before the tools, hands on 224, and so never the 64-bit transmit-wait."""
TIMED_OUT = (110).to_bytes(4, "big")
"""The status under which a request comes back that nobody answered."""

HEADER = 32
SIZE = HEADER + mad.SIZE
_LENGTH = slice(24, 32)


def socket_name(subnet: str, end: str) -> bytes:
    """The abstract name of one end: `ctl`, `out<i>`, `in<pid>`, `ctl<pid>`."""
    return f"\0{subnet}:{end}\0".encode()


def messages(
    mads: NDArray[np.uint8], lids: NDArray[np.uint16], pairs: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """uint8[M,288]: requests to these LIDs and queue pairs.

    Those to the permissive LID, which are routed by their own path, come from it too.
    """
    out = np.zeros((len(mads), SIZE), np.uint8)
    out[:, :2] = lids.astype(">u2").view(np.uint8).reshape(-1, 2)
    out[:, 4:6] = np.where(lids == mad.PERMISSIVE_LID, 0xFF, 0)[:, None]
    out[:, 11] = out[:, 15] = pairs
    out[:, _LENGTH] = np.frombuffer(mad.SIZE.to_bytes(8, "big"), np.uint8)
    out[:, HEADER:] = mads
    return out


def turn_round(requests: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """uint8[M,288]: the same messages on their way back, without a status."""
    out = requests.copy()
    out[:, 0:4], out[:, 4:8] = requests[:, 4:8], requests[:, 0:4]
    out[:, 8:12], out[:, 12:16] = requests[:, 12:16], requests[:, 8:12]
    out[:, 16:20] = 0
    return out
