"""SNMP as fast as the wire: requests encoded beforehand, replies decoded many at a time.

`wire` owns the socket; `session` is one agent; `asks` are the requests under way and land what
comes back; `security` turns PDUs into messages and back.
"""
