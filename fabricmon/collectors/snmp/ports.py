"""The ports of one device by everything that LLDP may call them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from fabricmon.mappings.snmp import oid
from fabricmon.mappings.snmp_walk import Walk, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fabricmon.formats.snmp.ber import Oid

IF_DESCR, IF_NAME = oid("1.3.6.1.2.1.2.2.1.2"), oid("1.3.6.1.2.1.31.1.1.1.1")
IF_PHYS_ADDRESS, IF_ALIAS = oid("1.3.6.1.2.1.2.2.1.6"), oid("1.3.6.1.2.1.31.1.1.1.18")
IF_HIGH_SPEED = oid("1.3.6.1.2.1.31.1.1.1.15")

_K = TypeVar("_K", bytes, str)
_NAME = re.compile(r"([A-Za-z][A-Za-z-]*?)[ -]?(\d.*)$")


def same_name(a: str, b: str) -> bool:
    """Whether one name abbreviates the other: `Gi1/0/8` and `GigabitEthernet1/0/8`."""
    left, right = _NAME.match(a), _NAME.match(b)
    if left is None or right is None or left[2] != right[2]:
        return False
    one, two = sorted((left[1].lower(), right[1].lower()), key=len)
    return two.startswith(one)


class PortIndex:
    """Names, descriptions, aliases, addresses and speeds. What two ports share names neither."""

    def __init__(self, names: Mapping[int, str], walk: Walk) -> None:
        """Copy what is needed out of the walk, which is not kept."""
        self.names = names
        self._by_text: dict[str, str] = {}
        for column in (IF_ALIAS, IF_DESCR, IF_NAME):
            self._by_text.update(_unique(names, walk, column, printable))
        self._by_text.update({name: name for name in names.values()})
        self._by_mac = _unique(names, walk, IF_PHYS_ADDRESS, bytes)
        self.speeds = {
            names[suffix[0]]: value * 1e6
            for suffix, value in walk.column(IF_HIGH_SPEED)
            if suffix[0] in names and isinstance(value, int) and value > 0
        }
        """bits per second by port"""

    def by_text(self, text: str) -> str | None:
        """The port of that name, description or alias, also where one side abbreviates."""
        if not text:
            return None
        found = self._by_text.get(text)
        if found is not None:
            return found
        alike = {name for known, name in self._by_text.items() if same_name(text, known)}
        return alike.pop() if len(alike) == 1 else None

    def by_mac(self, mac: bytes) -> str | None:
        """The port with that address, if it is the only one."""
        return self._by_mac.get(mac)

    def by_number(self, text: str) -> str | None:
        """The port whose ifIndex is written in `text`."""
        return self.names.get(int(text)) if text.isdecimal() and len(text) <= 10 else None


def _unique(
    names: Mapping[int, str], walk: Walk, column: Oid, key: Callable[[bytes], _K]
) -> dict[_K, str]:
    found = [
        (key(value), names[suffix[0]])
        for suffix, value in walk.column(column)
        if isinstance(value, bytes) and value.strip(b"\0 ") and suffix[0] in names
    ]
    tally = Counter(text for text, _ in found)
    return {text: name for text, name in found if tally[text] == 1}
