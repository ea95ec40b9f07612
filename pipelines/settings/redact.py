"""Settings of ``[redact]``: the policies that mask, and the text that replaces masked text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.config import StageConfig
from pipelines.corpus.languages import LANGUAGES
from pipelines.language import model_distribution
from pipelines.mask import Replacement
from pipelines.plugins import nearest, option_references
from pipelines.policies import presets, registry
from pipelines.policies.detectors.keywords import check_keywords
from pipelines.policies.detectors.model_options import files_of, identity_of
from pipelines.policies.detectors.patterns import compile_patterns
from pipelines.policies.detectors.specs import POLICY_FIELDS, SPECS
from pipelines.policies.options import BuiltInOptions

if TYPE_CHECKING:
    from pipelines.policies.judging.apply import RedactorSpec


_WEEK = 7


class _Selection(StageConfig):
    """The fields that the documentation lists before the options of policies."""

    policies: tuple[str, ...] = Field(
        default=("high_entity",),
        min_length=1,
        description="Policies whose union is masked: registered names, presets (docs/policies.md), or plug-ins as "
        "package.module:Class.",
    )
    conservative: str | None = Field(
        default=None,
        description="Policy that flags whole sentences as private without masking them. Any policy's name will do, "
        "and one find flags the sentence. Without such a policy, every sentence is private.",
    )
    model: str = Field(
        default="en_core_web_sm",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Installed spaCy model of policies that read entities or tags.",
    )
    language: str = Field(
        default="en",
        pattern=r"^[a-z]{2,3}$",
        description="Language code of the text; the model and Presidio's recognisers must be for it.",
    )
    language_of: Literal["corpus", "document"] = Field(
        default="corpus",
        description="Text whose language decides on the model. corpus: all text is in `language`. document: each "
        "document is read with the models of its languages, `language` and those of `models`. A document that is "
        "plainly in another language is masked whole and counted. `reticent init` writes document.",
    )
    models: dict[str, str] = Field(
        default={},
        description='With language_of = "document": installed spaCy models of further languages, {de = '
        '"de_core_news_sm"}.',
    )
    check_language: bool = Field(
        default=True,
        description="true refuses text that is plainly in another language than `language`, unless language_of = "
        "document.",
    )


def _tuples(value: Any) -> Any:
    """Returns a value with tuples in place of lists."""
    if isinstance(value, Mapping):
        return {name: _tuples(inner) for name, inner in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class RedactConfig(BuiltInOptions, _Selection):
    """The policies that mask, and the policy that decides which rows are public."""

    exclude: tuple[str, ...] = Field(
        default=(), description="Words or phrases that stay if a policy finds exactly them, in any case."
    )
    exclude_labels: tuple[str, ...] = Field(default=(), description="Labels whose finds stay, e.g. ORDINAL.")
    also_levels: tuple[str, ...] = Field(
        default=(), description="Policies that mask nothing. Their coverage is recorded in the same pass over the text."
    )
    stabilise: bool = Field(
        default=True,
        description="true: policies read a placeholder in place of each find, until they find nothing new, so that "
        "fewer masks depend on what another mask hides. false: every policy reads the original text, once.",
    )
    reads_original: bool = Field(
        default=False,
        description="With `stabilise`: true if every policy also reads the original text, so that nothing stays open "
        "that it finds there. false: policies read placeholders only.",
    )
    collapse: bool = Field(
        default=True,
        description="true: a run of masked tokens becomes one mask. false: the text shows the number of masked tokens.",
    )

    replacement: Replacement = Field(
        default="mask",
        description="Text in the place of masked text. label: its label of reviews, such as <PERSON>. surrogate: a "
        "realistic stand-in, drawn by an HMAC under the store's secret, which `reticent restore` turns back. A "
        "training reads both as text, and redaction then gives no credit (docs/policies.md).",
    )
    surrogate_scope: Literal["document", "corpus"] = Field(
        default="document",
        description="With surrogates: text in which a secret keeps its surrogate. corpus: all text, which links "
        "mentions of the secret.",
    )

    surrogate_persons: Literal["apart", "neutral", "gendered"] = Field(
        default="apart",
        description="With surrogates: names of persons. apart: each different mention has a surrogate of its own. "
        "neutral: word by word, so that all mentions of a person name one person; titles and upper case stay, and "
        "first names show no gender. gendered: the same, and listed first names keep their gender.",
    )
    shift_dates: int = Field(
        default=0,
        ge=0,
        le=36_525,
        description="With surrogates: greatest shift of the dates of a document, in days. All dates of a document move "
        "by one number of whole weeks, which the key decides, and keep their format. 0 draws other dates.",
    )
    day_first: bool = Field(default=False, description="With shift_dates: true if 3/5/2020 is in May.")

    options: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Options that a plug-in declares: a table [redact.options.NAME] for a policy named NAME above.",
    )

    LATER: ClassVar[frozenset[str]] = frozenset(
        {
            *("dates_and_numbers", "gliner_revision", "language_of", "models", "reads_original", "replacement"),
            *("day_first", "shift_dates", "surrogate_persons", "surrogate_scope"),
            *("token_classifier_aggregation", "token_classifier_onnx"),
        }
    )
    SENSITIVE: ClassVar[frozenset[str]] = frozenset({"patterns", "names", "keywords", "exclude", "options"})

    @model_validator(mode="before")
    @classmethod
    def _presets(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping):
            return settings
        # What follows a validator of this kind is no JSON any more, so arrays must be tuples already.
        expanded = presets.expand(settings)
        return {name: value if name == "options" else _tuples(value) for name, value in expanded.items()}

    @field_validator("policies", "also_levels")
    @classmethod
    def _known_policies(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            registry.check_name(name)
        if len(set(names)) != len(names):
            raise ValueError("a policy is named twice")
        return tuple(sorted(names))  # the order of a union changes nothing, so it must not change the key

    @field_validator("conservative")
    @classmethod
    def _known_conservative(cls, name: str | None) -> str | None:
        if name is not None:
            registry.check_name(name)
            if name in SPECS and SPECS[name].reads_documents:
                raise ValueError(f"'{name}' looks at whole documents and cannot vouch for single sentences")
        return name

    @model_validator(mode="after")
    def _replacement_fits(self) -> RedactConfig:
        if self.replacement != "mask" and not self.collapse:
            raise ValueError("'collapse' changes masks only: leave it out with replacement = label or surrogate")
        for name in ("surrogate_scope", "surrogate_persons", "shift_dates", "day_first"):
            if self.replacement != "surrogate" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"'{name}' needs replacement = surrogate")
        if 0 < self.shift_dates < _WEEK:
            raise ValueError("'shift_dates' is a number of days of at least a week")
        return self

    @model_validator(mode="after")
    def _languages_fit(self) -> RedactConfig:
        if self.language_of == "corpus":
            if self.models:
                raise ValueError("'models' needs language_of = \"document\"")
            return self
        for language in (self.language, *self.models):
            if language not in LANGUAGES:
                raise ValueError(f"language_of = document tells these languages apart: {', '.join(LANGUAGES)}")
        if self.language in self.models:
            raise ValueError("'model' is the model of 'language'; 'models' names those of further languages")
        return self

    @model_validator(mode="after")
    def _settings_have_their_policy(self) -> RedactConfig:
        if all(name in SPECS and SPECS[name].extends_finds for name in self.policies):
            raise ValueError(
                f"'{self.policies[0]}' extends the finds of other policies: name at least one other policy"
            )
        compile_patterns(self.patterns)
        if self.keywords:
            check_keywords(self.keywords)
        selected = self._selected()
        for spec in SPECS.values():
            fields = spec.options.model_fields if spec.options is not None else {}
            is_given = any(getattr(self, name) for name in spec.requires or fields)
            named = " or ".join(f"'{name}'" for name in spec.requires or fields)
            if spec.requires and not is_given and spec.name in selected:
                raise ValueError(f"the policy '{spec.name}' needs the setting {named}")
            if is_given and spec.name not in selected:
                raise ValueError(f"{named} need the policy '{spec.name}'")
        for name, values in self.options.items():
            if name not in selected:
                raise ValueError(f"options.{name}: no policy of that name is selected; {nearest(name, selected)}")
            registry.plugin_options(name, values)
        return self

    def _selected(self) -> tuple[str, ...]:
        conservative = (self.conservative,) if self.conservative is not None else ()
        return tuple(dict.fromkeys((*self.policies, *conservative, *self.also_levels)))

    def keyed(self, stage: str | None = None) -> dict[str, Any]:
        """Returns the fields that enter a key. The stage ``estimate`` uses only options of policies, for its proxy."""
        fields = super().keyed(stage)
        if stage == "estimate":
            fields = {name: fields[name] for name in (*POLICY_FIELDS, "options") if name in fields}
        models = identity_of("token_classifier", self.token_classifier, self.token_classifier_revision)
        return fields | models | identity_of("gliner", self.gliner, self.gliner_revision)

    def may_look_at_documents(self) -> bool:
        """Checks that a policy of the union may look at whole documents, as far as its spec says."""
        return self.language_of == "document" or any(map(registry.may_read_documents, self.policies))

    def reads_speakers(self) -> bool:
        """Checks that a policy of the union is told the names of speakers."""
        return any(map(registry.reads_speakers, self.policies))

    def files_read(self, stage: str) -> Mapping[str, tuple[str, ...]]:
        """Adds the table of speakers to what a stage that runs policies reads of the split, if a policy needs it."""
        files = {
            "redact": ("sentences.parquet", "speakers.parquet"),
            "stability": ("sentences.parquet", "gold.parquet", "documents.parquet", "speakers.parquet"),
        }
        return {"split": files[stage]} if stage in files and self.reads_speakers() else {}

    def plugin_descriptions(self) -> dict[str, str]:
        """Returns the descriptions in the specs of the selected plug-ins."""
        plugins = ((name, registry.spec(name)) for name in self._selected() if name not in SPECS)
        return {name: spec.description for name, spec in plugins if spec is not None}

    def check(self, stage: str) -> None:
        """Makes the policies and loads their model, unless installed files show that it will succeed."""
        if stage == "redact":
            from pipelines.settings.as_installed import can_make  # other commands do not need it

            if not can_make(self.redactor_spec()):
                self.redactor_spec().check()

    def code_references(self, stage: str | None = None) -> tuple[str, ...]:
        """Returns the modules of the selected policies, their registry, and the files that they read."""
        del stage
        modules = (*registry.policy_modules(self._selected()), "pipelines.policies.registry")
        return (*modules, *self._files(), *map(str, self.learnt_from()))

    def _files(self) -> tuple[str, ...]:
        """Returns the modules and files that options of the selected policies name."""
        built_in = (getattr(spec.options, "references", lambda config: ())(self) for spec in SPECS.values())
        own = (option_references(registry.plugin_options(name, values)) for name, values in self.options.items())
        return tuple(reference for found in (*built_in, *own) for reference in found)

    def learnt_from(self) -> tuple[Path, ...]:
        """Returns lists of sentences that models of selected policies learnt from (`pipelines.miss_rate.learnt`)."""
        named = (*self._files(), *self.data_files())
        folders = {Path(name).parent for name in named if Path(name).is_absolute()}
        return tuple(sorted(found for folder in folders if (found := folder / "learnt_from.json").is_file()))

    def plugin_references(self) -> tuple[str, ...]:
        """Returns the modules of policies of other packages, whose specs say what their labels count as."""
        return registry.policy_modules(name for name in self._selected() if name not in SPECS)

    def data_files(self) -> tuple[str, ...]:
        """Returns the files of models in folders, which count by content."""
        return (*files_of(self.token_classifier), *files_of(self.gliner))

    def package_references(self) -> tuple[str, ...]:
        """Returns the distributions of the spaCy model and of the libraries of the selected policies."""
        more = (package for spec in registry.specs(self._selected()) for package in spec.packages)
        return (*map(model_distribution, (self.model, *self.models.values())), *more)

    def linking(self) -> dict[str, Any] | None:
        """Returns arguments of `LinkedSurrogates` about persons and dates; None if every mention is on its own."""
        if self.surrogate_persons == "apart" and not self.shift_dates:
            return None
        return {"persons": self.surrogate_persons, "shift_dates": self.shift_dates, "day_first": self.day_first}

    def redactor_spec(self, separator: str | None = None) -> RedactorSpec:
        """Returns the specification of a redactor.

        Args:
            separator: separator between the two texts of a row (`CorpusConfig.separator`).
        """
        from pipelines.policies.judging.apply import RedactorSpec  # settings load without the code that judges

        return RedactorSpec(
            policies=self.policies,
            conservative=self.conservative,
            observed=self.also_levels,
            options={name: getattr(self, name) for name in POLICY_FIELDS},
            own={name: registry.plugin_options(name, values) for name, values in self.options.items()},
            exclude=self.exclude,
            exclude_labels=self.exclude_labels,
            separator=separator,
            stabilise=self.stabilise,
            reads_original=self.reads_original,
            models=self.models if self.language_of == "document" else None,
        )
