"""InfiniBand: datagrams, fabrics as plain data, and in `tools` what its tools print."""
