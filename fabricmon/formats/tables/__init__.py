"""Tables: cells, columns, and the long table of a replay."""
