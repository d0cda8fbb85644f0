"""What users write under `web:`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from fabricmon.settings import Duration, Settings


class WebConfig(Settings):
    """The HTTP server. TLS and passwords live in `config_file`, in exporter-toolkit's format."""

    listen_address: str = ":10077"
    """`host:port`; without a host, every address of the machine."""
    config_file: Path | None = None
    """Web config file as node_exporter and its kin read it; re-read when it changes."""
    telemetry_path: str = "/metrics"
    enable_lifecycle: bool = False
    """Allow `POST /-/reload`."""
    enable_status_page: bool = True
    max_concurrent_scrapes: int = Field(default=40, ge=1)
    """Scrapes beyond this are answered 503 with Retry-After, not queued."""
    max_connections: int = Field(default=512, ge=1)
    """Beyond this, the connection that idles longest is closed for a new one."""
    request_timeout: Duration = 20.0
    """A client that has not sent its request by then is cut off; also how long one may idle."""
    history_mib: int = Field(default=64, ge=1)
    """Memory for the counters behind the plots, and a quarter more for the timeline."""
    state_file: Path | None = None
    """Where acknowledgements and declared maintenance are kept over a restart; `web.json` in
    `state.directory` where that is given."""
    external_url: str = ""
    """The address people reach this server at, for links and `/sd/targets`."""

    @field_validator("listen_address")
    @classmethod
    def _has_port(cls, text: str) -> str:
        split_address(text)
        return text

    @field_validator("telemetry_path")
    @classmethod
    def _is_path(cls, text: str) -> str:
        if not text.startswith("/"):
            raise ValueError("a path begins with /")
        return text


def split_address(text: str) -> tuple[str | None, int]:
    """`host:port` as (host, port); no host means every address. `[::1]:80` for IPv6."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not an address: write it as host:port or :port")
    return host.strip("[]") or None, int(port)
