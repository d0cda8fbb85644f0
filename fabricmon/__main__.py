"""`python -m fabricmon`."""

from fabricmon.cli import main

main()
