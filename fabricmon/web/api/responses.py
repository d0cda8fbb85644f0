"""What handlers answer with."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web


def json_response(data: Any, status: int = 200) -> web.Response:
    """JSON, by orjson; large answers are compressed where the client takes it."""
    body = orjson.dumps(data)
    response = web.Response(body=body, status=status, content_type="application/json")
    if len(body) > 2048:
        response.enable_compression()
    response.headers["Cache-Control"] = "no-store"
    return response
