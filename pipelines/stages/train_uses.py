"""Which settings of ``[train]`` a method and a task use. What they do not use has no effect, and enters no key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_OF_PLAIN = ("public_learning_rate", "public_batch_size")
_OF_PRIVATE = (
    *("private_learning_rate", "expected_batch_size", "max_grad_norm"),
    *("target_epsilon", "noise_multiplier"),
)
_OF_JFT = (
    *("jft_variant", "jft_phase1_epochs", "jft_phase1_target_epsilon"),
    *("jft_miss_rate", "jft_miss_rate_basis"),
)
_OF_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "crt": (*_OF_PLAIN, *_OF_PRIVATE),
    "jft": (*_OF_PLAIN, *_OF_PRIVATE, *_OF_JFT),
    "dpsgd": (*_OF_PRIVATE, "added_tokens"),
    "redaction_schedule": (*_OF_PLAIN, *_OF_PRIVATE, "schedule", "schedule_scale"),
    "sdpsgd_lstm": ("public_learning_rate", *_OF_PRIVATE, "max_private_spans", "max_state_norm"),
    "redacted": (*_OF_PLAIN, "typed_masks"),
    "anonymized": (*_OF_PLAIN, "typed_masks"),
    "no_dp": (*_OF_PLAIN, "added_tokens"),
}
"""Settings that not every method uses, by the methods that do."""

_OF_GENERATION = ("num_beams", "max_new_tokens", "max_generated")
_OF_TASKS: Final[Mapping[str, tuple[str, ...]]] = {
    "classification": ("classes", "template", "label_words"),
    "response": _OF_GENERATION,
    "table_to_text": _OF_GENERATION,
}
"""Settings that not every task uses, by the tasks that do."""

_OF_PHASE_TWO = ("epochs", "private_learning_rate", "target_epsilon", "noise_multiplier")
_OF_NOISE_IN_PHASE_ONE = (
    *("max_grad_norm", "target_delta", "expected_batch_size", "private_learning_rate"),
    *("jft_phase1_target_epsilon", "jft_miss_rate", "jft_miss_rate_basis"),
)


PROTECTIONS: Final = frozenset(
    {
        *("target_epsilon", "noise_multiplier", "max_grad_norm", "max_state_norm"),
        *("jft_phase1_target_epsilon", "jft_miss_rate", "jft_miss_rate_basis"),
    }
)
"""Settings of noise and clipping: whoever sets one believes in a protection, so one that does nothing is refused."""
OF_LIGHT_NOISE: Final = frozenset({"jft_phase1_target_epsilon", "jft_miss_rate", "jft_miss_rate_basis"})


def method_uses(method: str, field: str) -> bool:
    """Whether a method uses a setting that not every method uses."""
    return field in _OF_METHODS[method]


def unused_fields(method: str, task: str) -> set[str]:
    """The settings that a training by this method, for this task, does not use."""
    unused = _all(_OF_METHODS) - set(_OF_METHODS[method])
    return unused | (_all(_OF_TASKS) - set(_OF_TASKS.get(task, ())))


def unused_in_phase_one(*, adds_noise: bool) -> set[str]:
    """The settings that phase 1 of jft does not use, beside those that jft does not."""
    of_noise = set(_OF_NOISE_IN_PHASE_ONE)
    return set(_OF_PHASE_TWO) - of_noise if adds_noise else set(_OF_PHASE_TWO) | of_noise


def _all(fields: Mapping[str, tuple[str, ...]]) -> set[str]:
    return {name for names in fields.values() for name in names}
