"""fabricmon: congestion telemetry and diagnosis for the networks of GPU training clusters."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("fabricmon")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
