"""Ask a running daemon, for `report`, `targets` and `top`."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.error import URLError
from urllib.request import Request, urlopen

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")

_TIMEOUT_S = 20
_MAX_BYTES = 64 << 20


def login_options(command: _F) -> _F:
    """`--user` and `--password-env`, for a daemon that asks for them."""
    command = click.option("--user", help="The name to give a daemon that asks for one.")(command)
    return click.option(
        "--password-env",
        default="FABRICMON_PASSWORD",
        show_default=True,
        help="The environment variable with the password.",
    )(command)


def is_url(text: str) -> bool:
    """Whether this is a daemon's address."""
    return text.startswith(("http://", "https://"))


def get(url: str, path: str, user: str | None = None, password_env: str = "") -> Any:
    """The JSON at `path` of the daemon at `url`. Raises `ClickException` in plain words."""
    import orjson

    if not is_url(url):
        raise click.ClickException(f"{url}: an address begins with http:// or https://")
    request = Request(url.rstrip("/") + path)  # noqa: S310 - http(s), checked above
    if user is not None:
        given = f"{user}:{os.environ.get(password_env, '')}".encode()
        request.add_header("Authorization", "Basic " + base64.b64encode(given).decode())
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - as above
            return orjson.loads(answer.read(_MAX_BYTES))
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise click.ClickException(f"{url} does not answer: {reason}") from error
    except orjson.JSONDecodeError as error:
        raise click.ClickException(f"{url} does not answer as fabricmon does") from error
