"""The base of every settings table: frozen, strict about unknown keys, documented field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class StageConfig(BaseModel):
    """One TOML table. The table's own subclass lives in `pipelines.settings`.

    ``SENSITIVE`` names the fields that may quote private text: no command prints them, no report shows them.
    ``UNKEYED`` names the fields that cannot change the stage's output bytes and so stay out of its key.
    ``LATER`` names fields that came after a release: with its default, such a field changes no byte, and stays out of
    keys and reports, so that artifacts from before it are found again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    SENSITIVE: ClassVar[frozenset[str]] = frozenset()
    UNKEYED: ClassVar[frozenset[str]] = frozenset()
    LATER: ClassVar[frozenset[str]] = frozenset()

    def silent(self) -> frozenset[str]:
        """The fields of ``LATER`` that have their default."""
        fields = type(self).model_fields
        return frozenset(name for name in self.LATER if getattr(self, name) == fields[name].default)

    def keyed(self, stage: str | None = None) -> dict[str, Any]:
        """The fields that enter an artifact's key, as JSON values.

        Args:
            stage: whose key it is; a table that several stages own may give each what it uses. None for all.
        """
        del stage
        left_out = self.UNKEYED | self.silent()
        return {k: v for k, v in self.model_dump(mode="json").items() if k not in left_out}

    def wants(self, stage: str) -> bool:
        """Whether these settings ask for an optional stage of their table (`pipelines.stage.Stage.optional`)."""
        del stage
        return bool(getattr(self, "enabled", True))

    def check(self, stage: str) -> None:
        """Refuses what ``stage`` would refuse when it runs, as far as that can be told without data.

        Asked before the first stage of a run that builds the stage, and by ``plan``. It may import plug-ins, and make
        what the stage would make of these settings.

        Raises:
            ConfigError: a plug-in cannot be imported, something is not installed, a folder is missing.
        """
        del stage

    def code_references(self, stage: str | None = None) -> tuple[str, ...]:
        """Modules (``package.module``) or files that these settings select, for the code digest.

        A stage that looks policies or methods up by name returns the modules that the names stand for, so that
        editing one policy reruns only the runs that use it. ``stage`` is as for `keyed`.
        """
        del stage
        return ()

    def data_files(self) -> tuple[str, ...]:
        """Files outside the corpus that these settings name, which count by content.

        A key and what is said about it hold their number only, for their names may be secrets.
        """
        return ()

    def plugin_references(self) -> tuple[str, ...]:
        """Modules of other packages that these settings select, which count by content beside a recipe."""
        return ()

    def package_references(self) -> tuple[str, ...]:
        """Distributions that these settings select beyond the stage's own, for the environment in the key."""
        return ()

    def data_packages(self) -> tuple[str, ...]:
        """Those of `package_references` that hold data, such as a model's weights, and so count in every key."""
        return ()

    def recipe(self, stage: str) -> dict[str, int]:
        """The declared versions that stand for a stage's code in its key (`pipelines.stage.Stage.has_recipe`).

        Returns:
            A version for each part of the recipe: it is raised with every change to what is computed.

        Raises:
            LookupError: the table configures no such stage.
        """
        raise LookupError(f"stage {stage} has no recipe")

    def partition_names(self, input_bytes: int) -> tuple[str, ...]:
        """The partitions of a stage that has its own ones (`pipelines.stage.Stage.own_partitions`).

        Args:
            input_bytes: of the corpus, about.

        Raises:
            LookupError: the table configures no such stage.
        """
        raise LookupError("no stage of this table has partitions of its own")

    def unread_inputs(self, stage: str) -> frozenset[str]:
        """Input stages of the graph that ``stage`` does not read with these settings.

        Their output neither enters the key nor is handed to the stage, so that it may change without a new run: a
        method that trains on original text need not train again because a policy changed. Only the settings that own
        the stage are asked. The inputs are still built before the stage runs.
        """
        del stage
        return frozenset()

    def files_read(self, stage: str) -> Mapping[str, tuple[str, ...]]:
        """Of some input stages, the files that ``stage`` reads with these settings, in the place of the graph's."""
        del stage
        return {}
