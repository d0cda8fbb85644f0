"""How an exporter reaches an HTTP receiver: authentication and TLS, as users write them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from fabricmon.settings import Secret, Settings, conceal, masked

if TYPE_CHECKING:
    from collections.abc import Mapping

_READ, _SHOWN = 1 << 16, 300


class HttpAccess(Settings):
    """Base of configs of exporters that push over HTTP."""

    username: str = ""
    password: Secret | None = None
    bearer_token: Secret | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure_skip_verify: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> HttpAccess:
        if bool(self.username) != (self.password is not None):
            raise ValueError("`username` and `password` are given together")
        if self.username and self.bearer_token is not None:
            raise ValueError("give either `username` or `bearer_token`")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("`cert_file` and `key_file` are given together")
        return self

    def headers(self) -> Mapping[str, str]:
        """What authenticates a request. Secrets are read anew, so that a renewed file is used."""
        if self.bearer_token is not None:
            return {"Authorization": f"Bearer {self.bearer_token.reveal()}"}
        if self.password is not None:
            pair = f"{self.username}:{self.password.reveal()}".encode()
            packed = base64.b64encode(pair).decode()
            conceal(packed)
            return {"Authorization": f"Basic {packed}"}
        return {}

    async def session(self, timeout_s: float) -> Any:
        """An aiohttp session. Redirects are for the receiver's operator to resolve, not for us."""
        import ssl  # noqa: PLC0415 - with aiohttp

        import aiohttp  # noqa: PLC0415 - 0.2 s that `check` must not pay

        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file is not None and self.key_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        if self.insecure_skip_verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=4),
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        )


async def refusal(answer: Any) -> str:
    """Status and first words of an answer that is no success, without what we authenticate with."""
    text = (await answer.content.read(_READ)).decode("utf-8", "replace").strip()
    return f"{answer.status}: {masked(text)[:_SHOWN]}"
