"""Settings of ``[train]`` as a run uses them: checked as a whole, with the fields that enter keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, model_validator

from pipelines.errors import ConfigError
from pipelines.methods import registry as methods
from pipelines.methods.view import unread_stages
from pipelines.plugins import LAYER_RULES, installed, nearest
from pipelines.pretrained import hub_commit
from pipelines.settings.train_checks import check_together
from pipelines.settings.train_fields import TrainSettings
from pipelines.training.models.sources import distributions_of, find_model, model_files, origin_of
from pipelines.training.recipes import recipe_of
from pipelines.training.scoring.text_metrics import check_bert_score
from pipelines.training.tasks import registry as tasks
from pipelines.training.tasks.spec import SCORES_ONLY


class TrainConfig(TrainSettings):
    """The training. Settings that the chosen method does not use have no effect."""

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        try:
            task = self.task_spec()
            if task.record is not None and "record" not in self.model_fields_set:
                self.__dict__["record"] = task.record  # the instance is frozen from here on
            self._check_options()
            check_together(self)
            self.record_unit()
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self

    def _check_options(self) -> None:
        chosen = (self.method, self.task)
        for name in self.options:
            if name not in chosen or name in methods.METHODS or name in tasks.TASKS:
                raise ValueError(
                    f"options.{name}: no method or task of another package of that name is chosen; "
                    + nearest(name, chosen)
                )
        self.of_method()
        self.of_task()

    def keyed(self, stage: str | None = None) -> dict[str, Any]:
        """Returns the fields that the chosen method uses, or that its first phase uses."""
        phase = self.method_spec().first_phase
        if stage == "train_phase1" and phase is None:
            return {}
        fields = {name: value for name, value in super().keyed().items() if name not in self._unused_by_the_model()}
        fields |= {"tokenizer": self.tokenizer_kind(), **self._identity_of_the_model()}
        unused = self._unused_fields() | self._unused_tokens() | {"options"}
        if stage in ("train", "train_phase1"):
            unused |= SCORES_ONLY
        if stage == "train_phase1" and phase is not None:
            unused |= phase.unused(self.variant())
        keyed = {name: value for name, value in fields.items() if name not in unused}
        if stage == "guarantee" and self.when is not None and self.when.changed is not None:
            keyed["when"] = "changed"  # claims say so; nothing else depends on it
        return {**keyed, "options": told} if (told := self._plugin_options()) else keyed

    def _unused_fields(self) -> set[str]:
        """Returns the fields of other methods and tasks, which the chosen method and task do not use."""
        of_some = {*methods.SettingsOfMethods.model_fields, *tasks.SettingsOfTasks.model_fields}
        return of_some - {*self.method_spec().settings.model_fields, *self.task_spec().settings.model_fields}

    def _plugin_options(self) -> dict[str, Any]:
        """Returns the options of plug-in methods and tasks that are no fields of this table, with their defaults."""
        plugins: dict[str, BaseModel] = {self.method: self.of_method()} if self.method not in methods.METHODS else {}
        plugins |= {self.task: self.of_task()} if self.task not in tasks.TASKS else {}
        return {
            name: own.model_dump(mode="json", exclude=set(type(self).model_fields)) for name, own in plugins.items()
        }

    def idle(self) -> frozenset[str]:
        """Returns the settings that have no effect with the chosen method, task and model."""
        used = {*self.keyed("evaluate"), "model_revision"}  # a commit stands for the revision
        used |= self.silent() - self._unused_fields()
        idle = type(self).model_fields.keys() - used - self.UNKEYED
        if (phase := self.method_spec().first_phase) is not None and not self.is_light_noise():
            idle |= phase.of_noise
        return frozenset(idle)

    def _unused_tokens(self) -> set[str]:
        tells = self.task_spec().has_speakers and self.has_added_tokens()
        unused = set() if tells and self.domain_tokens else {"domain_tokens", "domains"}
        return unused if tells and self.conversation_tokens else unused | {"conversation_tokens"}

    def _unused_by_the_model(self) -> set[str]:
        unused = {"model_revision"}  # a commit stands for it
        unused |= set() if self.by_owner() else {"unit", "owner_records"}
        unused |= {"lora_rank", "lora_alpha"} if self.adaptation != "lora" else set()
        unused |= {"prefix_length", "prefix_hidden"} if self.adaptation != "prefix" else set()
        if not self.is_pretrained():
            unused |= {"adaptation", "model_is_public"}
        if self.tokenizer_kind() != "bpe_public":
            unused.add("vocab_size")
        return unused

    def _identity_of_the_model(self) -> dict[str, Any]:
        if not self.is_pretrained():
            return {}
        origin = origin_of(self.model)
        if origin == "folder":
            return {"model": "a folder"}  # whose files count by content
        return {"model_commit": hub_commit(self.model, self.model_revision)} if origin == "hub" else {}

    def check(self, stage: str) -> None:
        """Checks that a pretrained model can be found, and that BERTScore can be measured if it is asked for."""
        if stage == "train" and self.is_pretrained():
            find_model(self.model, self.model_revision)
        if stage == "train" and self.bert_score_model is not None and "bert_score_model" not in self._unused_fields():
            check_bert_score(self.bert_score_model)

    def data_files(self) -> tuple[str, ...]:
        """Returns the files of a model in a folder, which count by content."""
        return tuple(map(str, model_files(self.model))) if self.is_pretrained() else ()

    def data_packages(self) -> tuple[str, ...]:
        """Returns the packages that hold the model."""
        return tuple(distributions_of(self.model))

    def package_references(self) -> tuple[str, ...]:
        """Returns the packages that hold or adapt the model."""
        return (*self.data_packages(), *(("peft",) if self.adaptation in ("lora", "prefix") else ()))

    def recipe(self, stage: str) -> dict[str, int]:
        """Returns the versions of the engine, of reading records, of the method and of the task."""
        is_first_phase = stage == "train_phase1"
        if is_first_phase and self.method_spec().first_phase is None:
            return {}
        return recipe_of(self.method, self.task, is_first_phase=is_first_phase)

    def plugin_references(self) -> tuple[str, ...]:
        """Returns the modules of a method, a task and layer rules of other packages.

        Layers of our own models need only our own rules. The layers of another model are unknown until it is loaded.
        """
        is_ours = not self.is_pretrained() or origin_of(self.model) not in ("hub", "folder")
        rules = () if is_ours else (reference.partition(":")[0] for reference in installed(LAYER_RULES).values())
        method, task = self.method_spec(), self.task_spec()
        of_method = () if self.method in methods.METHODS else (method.module, methods.module_of(self.method))
        of_task = () if self.task in tasks.TASKS else (task.module, tasks.module_of(self.task))
        return (*of_method, *of_task, *rules)

    def unread_inputs(self, stage: str) -> frozenset[str]:
        """Returns the input stages that the chosen method does not read."""
        if stage == "evaluate":
            return frozenset() if self.view().marks_tokens else frozenset({"redact"})
        phase, learns = self.method_spec().first_phase, self.tokenizer_kind() == "bpe_public"
        if stage == "train_phase1":
            if phase is None:
                return frozenset({"shard", "split", "redact", "estimate", "overlay"})
            is_given = self.is_light_noise() and self.jft_miss_rate is not None
            return frozenset({"redact", "estimate"} - {None if is_given else phase.figures.get(self.variant() or "")})
        unread = unread_stages(self.view(), tokenizer_reads_public_rows=learns)
        return unread if phase else unread | {"train_phase1"}

    def files_read(self, stage: str) -> Mapping[str, tuple[str, ...]]:
        """Returns files that only some trainings read.

        They are the gate's list of held rows, if the method reads masks outside the shards, and the documents tables,
        if private steps sample people. If no row is held, the bytes of that list do not change, and so the keys do not.
        """
        if stage != "train":
            return {}
        files = {"gate": ("held.json",)} if self.view().reads_masks else {}
        return {**files, "split": ("sentences.parquet", "documents.parquet")} if self.by_owner() else files

    def code_references(self, stage: str | None = None) -> tuple[str, ...]:
        """Returns the modules of the chosen method and task, and of their specs. Evaluation runs no method."""
        specs = (methods.module_of(self.method), tasks.module_of(self.task))
        trains = () if stage == "evaluate" else (self.method_spec().module,)
        return (*trains, self.task_spec().module, *specs)
