"""Wire and file formats, pure and without opening files; each is described once, both ways.

A format turns bytes into its own names and numbers and back. What those mean in catalogue terms is
for `mappings`; who asks for them is a collector, a replay or the simulated fabric.
"""
