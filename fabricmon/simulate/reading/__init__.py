"""How collectors would read the simulated fabric: counters, targets, and what goes wrong there."""
