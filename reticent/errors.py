"""Errors with a message for the user. None of them quotes private text."""

from pipelines.errors import ConfigError, InputError, PrivacyGateError, ReticentError, StageError, StoreError

__all__ = ["ConfigError", "InputError", "PrivacyGateError", "ReticentError", "StageError", "StoreError"]
