"""Guesses for `reticent init` which field of records holds the id of the person whose text it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

_PEOPLE: Final = (
    *("customer", "client", "user", "patient", "member", "person", "contact", "account", "subscriber", "caller"),
    *(
        "requester",
        "reviewer",
        "author",
        "buyer",
        "guest",
        "student",
        "employee",
        "sender",
        "poster",
        "kunde",
        "nutzer",
    ),
    *("patron", "consumer", "participant", "username", "screenname", "login", "handle", "nickname", "from"),
)
"""Words for a person, the likeliest first."""
_NAME: Final = re.compile(
    rf"({'|'.join(_PEOPLE)})(?:id|ids|no|nr|number|nummer|key|uuid|guid|name|email|handle|login)?"
)
_INNER: Final = ("id", "user_id", "uuid", "username", "login", "email", "name")
_MOST_CHARS: Final = 100
_MOST_WORDS: Final = 4


def owner_field(rows: Sequence[Mapping[str, Any]], text: str | None = None) -> str:
    """Returns the field that looks like the id of a person; empty if none does.

    Returns:
        Name of a field, or ``user.id`` for a field of an object.
    """
    found: list[tuple[int, bool, str]] = []
    for name in dict.fromkeys(name for row in rows for name in row):
        match = _NAME.fullmatch(re.sub(r"[^a-z0-9]", "", str(name).lower()))
        if match is None or name == text:
            continue
        values = [row[name] for row in rows if row.get(name) not in (None, "")]
        is_name = match[0] == match[1] or match[0].endswith("name")
        if any(isinstance(value, Mapping) for value in values):
            objects = [value for value in values if isinstance(value, Mapping)]
            inner = next((one for one in _INNER if _are_ids(value.get(one) for value in objects)), None)
            found += [(_PEOPLE.index(match[1]), inner == "name", f"{name}.{inner}")] if inner else []
        elif _are_ids(values):
            found.append((_PEOPLE.index(match[1]), is_name, str(name)))
    return min(found, default=(0, False, ""))[2]


def _are_ids(values: Iterable[Any]) -> bool:
    """Checks that values are short, and not all the same."""
    ids = [v for v in values if isinstance(v, str | int) and not isinstance(v, bool)]
    shown = {str(value) for value in ids}
    return len(shown) > 1 and all(len(one) <= _MOST_CHARS and len(one.split()) <= _MOST_WORDS for one in shown)
