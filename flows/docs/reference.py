"""Generates the reference of all settings from the models that validate them."""

from __future__ import annotations

import json
from typing import Any

from pipelines.settings.loading import tables


def _default(value: Any) -> str:
    return "none" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(option) for option in schema["anyOf"] if option.get("type") != "null"))
    if "$ref" in schema:
        return "table"
    if schema.get("type") == "array":
        items = schema.get("items")
        return f"list of {_kind(items)}" if isinstance(items, dict) and items else "list"
    bounds = [
        f"{sign} {schema[name]:g}"
        for name, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
        if name in schema
    ]
    return " ".join([str(schema.get("type", "value")), *([f"({', '.join(bounds)})"] if bounds else [])])


def settings_markdown() -> str:
    """Returns every table and field with type, default and meaning, as Markdown."""
    lines = [
        "# Settings",
        "",
        "Your settings are one TOML file with one table per stage. `make docs` makes this page from the code that",
        "checks the file, so the page is never stale. `RETICENT__TABLE__FIELD=value` in the environment overrides a",
        "field. Fields marked ○ never enter an artifact's key: changing them reruns nothing by itself.",
    ]
    for table, model in tables().items():
        fields = model.model_json_schema(by_alias=False)["properties"] if model.model_fields else {}
        unkeyed = set(model.UNKEYED) if table not in ("runtime", "store") else set(fields)
        lines += ["", f"## [{table}]", "", (model.__doc__ or "").strip().splitlines()[0], ""]
        if not fields:
            lines.append("No settings.")
            continue
        lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
        for name, schema in fields.items():
            mark = " ○" if name in unkeyed else ""
            meaning = str(schema.get("description", "")).replace("|", "\\|")
            lines.append(f"| `{name}`{mark} | {_kind(schema)} | {_default(schema.get('default'))} | {meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(settings_markdown(), end="")
