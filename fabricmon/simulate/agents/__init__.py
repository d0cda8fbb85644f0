"""The simulated fabric speaking real protocols on loopback, one module a protocol."""
