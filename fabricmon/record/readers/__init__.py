"""One reader for each family of files; `FAMILIES` is asked in order what a file is."""

from fabricmon.record.readers import cabling, gnmi, host, infiniband, interchange, snmp
from fabricmon.record.readers.base import Family, Scope

FAMILIES: tuple[Family, ...] = (
    interchange.Counters(),
    interchange.LabelFile(),
    interchange.TopologyFile(),
    host.SysfsTree(),
    infiniband.InfinibandText(),
    snmp.SnmpWalks(),
    host.HostText(),
    cabling.Cabling(),
    gnmi.GnmiJson(),
)
"""The most telling signs first."""

__all__ = ["FAMILIES", "Family", "Scope"]
