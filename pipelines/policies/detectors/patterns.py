"""Checks and compiles the caller's regular expressions.

This module is separate from the policy `regex`, because settings are checked even if that policy is not selected. An
edit to a policy that is not selected must rerun nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.policies.options import LABEL_PATTERN

if TYPE_CHECKING:
    import regex


def compile_patterns(patterns: Mapping[str, str]) -> dict[str, regex.Pattern[str]]:
    """Compiles patterns by label, in the order of the labels, in the syntax of the module ``regex``.

    That module has the syntax of ``re``, and can stop a match that takes too long.

    Raises:
        ValueError: a label is not allowed, a pattern does not compile, or it matches the empty string.
    """
    if not patterns:
        return {}
    import regex

    compiled = {}
    for label, pattern in sorted(patterns.items()):
        if LABEL_PATTERN.fullmatch(label) is None:
            raise ValueError(f"label '{label}' must be capitals, digits and underscores")
        try:
            compiled[label] = regex.compile(pattern)
        except regex.error as error:
            raise ValueError(f"pattern of label '{label}' does not compile: {error.msg} at {error.pos}") from None
        if compiled[label].match("") is not None:
            raise ValueError(f"pattern of label '{label}' matches the empty string")
    return compiled
