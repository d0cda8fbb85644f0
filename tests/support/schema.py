"""The part of JSON Schema that the API's description uses, as a check that says what is wrong."""

from __future__ import annotations

import re
from typing import Any

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_IS = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def misfits(
    value: Any, schema: dict[str, Any], document: dict[str, Any], where: str = "$"
) -> list[str]:
    """What of `value` is not as `schema` says; `$ref` points into `document`."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_IS[kind](value) for kind in kinds):
        return [f"{where}: {value!r} is not {kinds}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where}: {value!r} is not one of {schema['enum']}"]
    if schema.get("format") == "date-time" and value is not None and not _TIME.fullmatch(value):
        return [f"{where}: {value!r} is not a time"]
    if isinstance(value, list):
        return _in_list(value, schema, document, where)
    return _in_object(value, schema, document, where) if isinstance(value, dict) else []


def _in_list(
    value: list[Any], schema: dict[str, Any], document: dict[str, Any], where: str
) -> list[str]:
    heads = schema.get("prefixItems")
    return [
        wrong
        for i, item in enumerate(value)
        for wrong in misfits(
            item, heads[i] if heads else schema.get("items", {}), document, f"{where}[{i}]"
        )
    ]


def _in_object(
    value: dict[str, Any], schema: dict[str, Any], document: dict[str, Any], where: str
) -> list[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    wrong = [f"{where}: {key} is missing" for key in schema.get("required", []) if key not in value]
    for key, item in value.items():
        if key in known or isinstance(others, dict):
            wrong += misfits(item, known.get(key, others), document, f"{where}.{key}")
        elif others is False:
            wrong.append(f"{where}: {key} is not described")
    return wrong
