"""Switches of a simulated fabric as SNMP agents, for any poller.

    agents = SnmpAgents(topology, flavour="sonic")
    addresses = await agents.start(batches)      # device -> "127.0.0.1:port"
    agents.update(batches)                       # whenever the fabric has moved on
    await agents.stop()

Version 2c is served from encoded tables (`table`, `responder`) in processes of their own
(`server`); `content` fills them from the same mapping files that the collector reads; `v3` puts
version 3 in front of the same answers.
"""

from fabricmon.simulate.agents.snmp.fabric import SnmpAgents
from fabricmon.simulate.agents.snmp.v3 import V3User

__all__ = ["SnmpAgents", "V3User"]
