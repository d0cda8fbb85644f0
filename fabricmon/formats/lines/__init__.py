"""Lines that repeat: what changes from one to the next, and series of numbers read at once."""
