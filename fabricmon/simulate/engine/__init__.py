"""The physics: flows over links, back-pressure, congestion control, and what counters see of it."""
