"""The command line: one file per command, heavy rooms imported late."""


def main() -> None:
    """Entry point."""
