"""Generates the JSON schema of ``reticent.toml`` for editors, from the models that validate it."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import models_json_schema

from pipelines.settings.loading import tables


def settings_schema() -> dict[str, Any]:
    """Returns one object with a property for each table."""
    models = tables()
    references, definitions = models_json_schema([(model, "validation") for model in models.values()])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of Reticent",
        "type": "object",
        "additionalProperties": False,
        "properties": {table: references[model, "validation"] for table, model in models.items()},
        "$defs": definitions["$defs"],
    }


if __name__ == "__main__":
    print(json.dumps(settings_schema(), indent=1, ensure_ascii=False))
