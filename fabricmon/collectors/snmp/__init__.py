"""SNMP: Ethernet switches.

`collector` polls; `enrich` learns names and rows, seldom; `plan` is what a poll then asks;
`session` is what both ways of speaking the protocol offer: `fast_path`, and `reference` (pysnmp)
for what that does not cover. `lldp` finds the cables.
"""

from fabricmon.collectors.snmp.collector import SnmpCollector

__all__ = ["SnmpCollector"]
