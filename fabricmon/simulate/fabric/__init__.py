"""The shape of a simulated fabric: who is wired to whom, how fast, and by which way."""
