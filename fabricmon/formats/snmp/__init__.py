"""SNMP: messages of version 2c and 3, many replies at once, recordings for simulators."""
