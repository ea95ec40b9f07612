"""The base of every settings table: frozen, strict about unknown keys, documented field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class StageConfig(BaseModel):
    """The base of the settings of a TOML table. The subclass of each table is in `pipelines.settings`.

    ``SENSITIVE`` names the fields that may quote private text: no command prints them, and no report shows them.
    ``UNKEYED`` names the fields that cannot change the bytes of a stage's output, and so stay out of its key.
    ``LATER`` names the fields that were added after a release. A field with its default changes no byte, and stays out
    of keys and reports, so that older artifacts are found again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    SENSITIVE: ClassVar[frozenset[str]] = frozenset()
    UNKEYED: ClassVar[frozenset[str]] = frozenset()
    LATER: ClassVar[frozenset[str]] = frozenset()

    def silent(self) -> frozenset[str]:
        """Returns the fields of ``LATER`` that have their default."""
        fields = type(self).model_fields
        return frozenset(name for name in self.LATER if getattr(self, name) == fields[name].default)

    def keyed(self, stage: str | None = None) -> dict[str, Any]:
        """Returns the fields that enter an artifact's key, as JSON values.

        Args:
            stage: stage of the artifact. A table of several stages may give each stage its own fields. None for all
                fields.
        """
        del stage
        left_out = self.UNKEYED | self.silent()
        return {k: v for k, v in self.model_dump(mode="json").items() if k not in left_out}

    def wants(self, stage: str) -> bool:
        """Checks that these settings ask for an optional stage of their table (`pipelines.stage.Stage.optional`)."""
        del stage
        return bool(getattr(self, "enabled", True))

    def check(self, stage: str) -> None:
        """Raises the errors that ``stage`` would raise when it runs, as far as settings alone show them.

        A run that builds the stage calls this method before its first stage, and so does ``plan``. The method may
        import plug-ins, and make what the stage would make of these settings.

        Raises:
            ConfigError: a plug-in cannot be imported, something is not installed, a folder is missing.
        """
        del stage

    def code_references(self, stage: str | None = None) -> tuple[str, ...]:
        """Returns the modules (``package.module``) or files that these settings select, for the code digest.

        Settings with names of policies or methods return the modules of these names, so that an edit of one policy
        repeats only the runs that use it. ``stage`` is as for `keyed`.
        """
        del stage
        return ()

    def data_files(self) -> tuple[str, ...]:
        """Returns files outside the corpus that these settings name, which count by content.

        Keys and messages hold only the number of a file, because its name may be a secret.
        """
        return ()

    def plugin_references(self) -> tuple[str, ...]:
        """Returns modules of other packages that these settings select, which count by content next to a recipe."""
        return ()

    def package_references(self) -> tuple[str, ...]:
        """Returns distributions that these settings select beyond the stage's own, for the environment in the key."""
        return ()

    def data_packages(self) -> tuple[str, ...]:
        """Returns those of `package_references` that hold data, such as weights, and so count in every key."""
        return ()

    def recipe(self, stage: str) -> dict[str, int]:
        """Returns the declared versions that represent a stage's code in its key (`pipelines.stage.Stage.has_recipe`).

        Returns:
            A version for each part of the recipe, which is raised with every change of the computation.

        Raises:
            LookupError: the table configures no such stage.
        """
        raise LookupError(f"stage {stage} has no recipe")

    def partition_names(self, input_bytes: int) -> tuple[str, ...]:
        """Returns the partitions of a stage that has its own ones (`pipelines.stage.Stage.own_partitions`).

        Args:
            input_bytes: approximate size of the corpus in bytes.

        Raises:
            LookupError: the table configures no such stage.
        """
        raise LookupError("no stage of this table has partitions of its own")

    def unread_inputs(self, stage: str) -> frozenset[str]:
        """Returns the input stages of the graph that ``stage`` does not read with these settings.

        The output of such an input neither enters the key nor reaches the stage, so that it may change without a new
        run: a method that trains on original text need not train again because a policy changed. Only the settings of
        the stage's own table answer. The inputs are still built before the stage runs.
        """
        del stage
        return frozenset()

    def files_read(self, stage: str) -> Mapping[str, tuple[str, ...]]:
        """Returns the files that ``stage`` reads of some input stages, in place of the graph's, with these settings."""
        del stage
        return {}
