"""Vendor names to catalogue names, as data, and the engine that applies them both ways.

One YAML file per vendor or OS family in `snmp/`, `gnmi/`, `infiniband/`, `host/`. A new vendor is
one file and a test case, and no Python. `base` holds what every kind of mapping shares; one module
per kind adds what its sources need (OIDs, paths, field names). Collectors and replay read forward,
the simulated fabric's agents and writers read the same files backward.
"""
