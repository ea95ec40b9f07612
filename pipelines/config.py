"""The base of every settings table: frozen, strict about unknown keys, documented field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class StageConfig(BaseModel):
    """The settings of one TOML table. Each stage's own subclass is defined beside its ``run`` function.

    ``SENSITIVE`` names the fields that may quote private text: no command prints them, no report shows them.
    ``UNKEYED`` names the fields that cannot change the stage's output bytes and so stay out of its key.
    ``LATER`` names fields that were added after a release. At its default, such a field changes no byte, and stays out
    of keys and reports, so that earlier artifacts are found again.
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
            stage: name of the key's stage. A table of several stages may return only what each uses. None for all.
        """
        del stage
        left_out = self.UNKEYED | self.silent()
        return {k: v for k, v in self.model_dump(mode="json").items() if k not in left_out}

    def wants(self, stage: str) -> bool:
        """Returns True if these settings enable an optional stage of their table (`pipelines.stage.Stage.optional`)."""
        del stage
        return bool(getattr(self, "enabled", True))

    def check(self, stage: str) -> None:
        """Refuses settings that ``stage`` would refuse when it runs, as far as that can be known without data.

        A run that builds the stage calls it before its first stage, and so does ``plan``. It may import plug-ins, and
        make the objects that the stage would make from these settings.

        Raises:
            ConfigError: a plug-in cannot be imported, something is not installed, a folder is missing.
        """
        del stage

    def code_references(self, stage: str | None = None) -> tuple[str, ...]:
        """Returns modules (``package.module``) or files that these settings select, for the code digest.

        A stage that looks up policies or methods by name returns their modules, so that editing one policy reruns only
        the runs that use it. For ``stage``, see `keyed`.
        """
        del stage
        return ()

    def data_files(self) -> tuple[str, ...]:
        """Returns files outside the corpus that these settings name. They count by content.

        A key, and messages about it, hold only their numbers, because their names may be secrets.
        """
        return ()

    def plugin_references(self) -> tuple[str, ...]:
        """Returns modules of other packages that these settings select. They count by content beside a recipe."""
        return ()

    def package_references(self) -> tuple[str, ...]:
        """Returns distributions that these settings select beyond the stage's own, for the environment in the key."""
        return ()

    def data_packages(self) -> tuple[str, ...]:
        """Returns the `package_references` that hold data, such as a model's weights. They count in every key."""
        return ()

    def recipe(self, stage: str) -> dict[str, int]:
        """Returns the declared versions that stand for a stage's code in its key (`pipelines.stage.Stage.has_recipe`).

        Returns:
            A version for each part of the recipe. It is raised with every change to what is computed.

        Raises:
            LookupError: the table configures no such stage.
        """
        raise LookupError(f"stage {stage} has no recipe")

    def partition_names(self, input_bytes: int) -> tuple[str, ...]:
        """Returns the partitions of a stage that has its own partitions (`pipelines.stage.Stage.own_partitions`).

        Args:
            input_bytes: approximate size of the corpus.

        Raises:
            LookupError: the table configures no such stage.
        """
        raise LookupError("no stage of this table has partitions of its own")

    def unread_inputs(self, stage: str) -> frozenset[str]:
        """Returns input stages of the graph that ``stage`` does not read with these settings.

        Their output does not enter the key, and the stage does not get it. So it may change without a new run: a method
        that trains on original text need not train again because a policy changed. Only the settings that own the stage
        are asked. The inputs are still built before the stage runs.
        """
        del stage
        return frozenset()

    def files_read(self, stage: str) -> Mapping[str, tuple[str, ...]]:
        """Returns, for some input stages, the files that ``stage`` reads with these settings instead of the graph's."""
        del stage
        return {}
