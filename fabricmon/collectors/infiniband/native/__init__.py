"""Management datagrams of our own through libibumad: no process per port, none per switch.

`worker` is the small process that sends and collects (`simulated`: the same on a subnet that is
simulated), `pump` hands it batches, `sweep` discovers the subnet by direct routes, `counters` reads
every port.
"""
