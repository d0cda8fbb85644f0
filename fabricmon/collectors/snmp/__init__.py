"""SNMP: Ethernet switches.

`collector` polls; `enrich` learns names and rows, seldom; `session` is what both ways of speaking
the protocol offer: the fast path, and `reference` (pysnmp) for what it does not cover.
"""

from fabricmon.collectors.snmp.collector import SnmpCollector

__all__ = ["SnmpCollector"]
