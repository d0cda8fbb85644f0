"""Write docs/config.md and docs/config.schema.json from the config's models.

`python docs/config.py` writes both; a test fails while they are not current.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fabricmon import plugins
from fabricmon.config import Config
from fabricmon.diagnose import DiagnoseConfig
from fabricmon.web.config import WebConfig

_HERE = Path(__file__).parent
_INTRO = """\
# Config reference

One YAML file. Everything has a default; unknown keys are errors that name file, line, key and what
is allowed. Durations are written `10s`, `1m30s`; sizes `64MiB`; rates `400G`. Secrets are never in
the file: `{file: PATH}` or `{env: NAME}` says where they are. For completion in an editor put
`# yaml-language-server: $schema=config.schema.json` on the first line.

This page is written by `python docs/config.py` from the models.
"""


_WRITTEN = {"10s": "duration", "64MiB": "size", "400G": "rate"}
"""What is written as text and is a number, by its first example."""


def sections() -> list[tuple[str, Any]]:
    """(heading, model) of every part of the file, plug-ins included."""
    found: list[tuple[str, Any]] = [("", Config), ("web", WebConfig), ("diagnose", DiagnoseConfig)]
    for heading, group in (
        ("detect", plugins.DETECTORS),
        ("collectors", plugins.COLLECTORS),
        ("exporters", plugins.EXPORTERS),
    ):
        for kind in plugins.kinds(group):
            name = heading if group == plugins.DETECTORS else f"{heading}.{kind}"
            found.append((name, plugins.find(group, kind).Config))
    return found


def _schema(model: Any) -> dict[str, Any]:
    """The model's JSON Schema, with the docstrings below its fields as descriptions."""
    schema: dict[str, Any] = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    for one in _models(model, set()):
        part = schema if one is model else definitions.get(one.__name__)
        if part is None:
            continue
        for name, text in _docstrings(one).items():
            key = one.model_fields[name].alias or name
            part["properties"][key].setdefault("description", text)
    return schema


def _models(model: Any, seen: set[Any]) -> set[Any]:
    """The model and every model inside it."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        if model not in seen:
            seen.add(model)
            for field in model.model_fields.values():
                _models(field.annotation, seen)
    else:
        for inner in getattr(model, "__args__", ()):
            _models(inner, seen)
    return seen


def _docstrings(model: Any) -> dict[str, str]:
    """Field -> the string that stands below it in the source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def markdown() -> str:
    """The whole page."""
    parts = [_INTRO]
    for heading, model in sections():
        schema = _schema(model)
        parts.append(f"## {heading or 'Top level'}\n\n{_table(schema, schema)}")
        if not heading:
            for name, part in sorted(schema.get("$defs", {}).items()):
                if "properties" in part:
                    title = name.removesuffix("Config").lower()
                    parts.append(f"### {title}\n\n{_about(part)}{_table(part, schema)}")
    return "\n".join(parts).rstrip() + "\n"


def _about(part: dict[str, Any]) -> str:
    text = " ".join(part.get("description", "").split())
    return textwrap.fill(text, 100) + "\n\n" if text else ""


def _table(part: dict[str, Any], schema: dict[str, Any]) -> str:
    rows = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    required = part.get("required", ())
    for key, value in part.get("properties", {}).items():
        default = "required" if key in required else f"`{json.dumps(value.get('default'))}`"
        meaning = " ".join(value.get("description", "").split())
        rows.append(f"| `{key}` | {_type(value, schema)} | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def _type(value: dict[str, Any], schema: dict[str, Any]) -> str:
    if "$ref" in value:
        name = str(value["$ref"]).rpartition("/")[2]
        target = schema.get("$defs", {}).get(name, {})
        return _words(target) or name.removesuffix("Config").lower()
    if choices := value.get("anyOf") or value.get("oneOf"):
        parts = [_type(part, schema) for part in choices if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(parts))
    kind = value.get("type", "any")
    if words := _words(value):
        return words
    if kind == "array":
        return f"list of {_type(value.get('items', {}), schema)}"
    if isinstance(kind, list):
        return _WRITTEN[value["examples"][0]]
    return str(kind)


def _words(value: dict[str, Any]) -> str:
    """The words a value may be, if it is one of a few."""
    words = value.get("enum") or ([value["const"]] if "const" in value else [])
    return " or ".join(f"`{word}`" for word in words)


def schema_json() -> str:
    """JSON Schema of the whole file, with every plug-in's section in its place."""
    whole = _schema(Config)
    definitions = whole.setdefault("$defs", {})
    for heading, model in sections()[1:]:
        part = _schema(model)
        definitions.update(part.pop("$defs", {}))
        outer, _, kind = heading.partition(".")
        if not kind:
            whole["properties"][outer] = part
            continue
        place = whole["properties"][outer]
        place.setdefault("properties", {})[kind] = {"anyOf": [part, {"type": "null"}]}
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    (_HERE / "config.md").write_text(markdown(), encoding="utf-8")
    (_HERE / "config.schema.json").write_text(schema_json(), encoding="utf-8")
