"""What the description of a training method says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipelines.errors import ConfigError
from pipelines.methods.rule import MethodRule
from pipelines.methods.settings import MethodSettings, Optimized
from pipelines.methods.view import View


@dataclass(frozen=True, kw_only=True)
class FirstPhase:
    """A phase that is an artifact of its own (``train_phase1``), whose weights the method goes on from.

    Attributes:
        view: what it reads.
        views: what it reads instead, by variant.
        noised_variants: those that add noise.
        figures: the stage whose figures it reads, by variant.
        only_later: settings that count in the second phase alone.
        with_noise: settings that count in this phase where it adds noise.
        of_noise: those of them that count nowhere else.
        recipe: as `MethodSpec.recipe`.
    """

    view: View
    views: Mapping[str, View] = field(default_factory=dict)
    noised_variants: frozenset[str] = frozenset()
    figures: Mapping[str, str] = field(default_factory=dict)
    only_later: frozenset[str] = frozenset()
    with_noise: frozenset[str] = frozenset()
    of_noise: frozenset[str] = frozenset()
    recipe: int = 1

    def view_of(self, variant: str | None) -> View:
        """What it reads in a variant."""
        return self.views.get(variant or "", self.view)

    def unused(self, variant: str | None) -> frozenset[str]:
        """Settings of the method that it does not use in a variant."""
        return self.only_later if variant in self.noised_variants else self.only_later | self.with_noise | self.of_noise


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A training method, as settings, checks, claims, model card and documentation see it.

    Attributes:
        name: as ``train.method`` gives it.
        module: what trains: a module with ``prepare(corpus, settings)`` (`pipelines.training.methods.base`).
        recipe: version of what it does to records. To be raised by whoever changes what the weights come from: a model
            of an earlier version is then told from one of this version, and nothing else does that.
        description: for the model card: what is done to which text.
        without_noise, with_noise: for the table of methods: what it trains on in each way; empty for nothing.
        source: where it comes from.
        settings: what it is told beside what every method is.
        view: which text it reads, and as what.
        rules: what can be claimed of it, by variant; a method without variants has the one variant None.
        variant_setting: the setting that names the variant.
        first_phase: a phase before it, for those that have one.
        notes: assumptions of its own, for every claim.
        publishes_model: whether its model may lie in the public root; not one with no bound on what it tells of
            private rows.
        shares_steps: whether several processes may take its steps together.
        needs_lstm: whether it trains the LSTM of its paper and no other network.
    """

    name: str
    module: str
    recipe: int = 1
    description: str
    without_noise: str
    with_noise: str
    source: str
    settings: type[MethodSettings]
    view: View
    rules: Mapping[str | None, MethodRule]
    variant_setting: str | None = None
    first_phase: FirstPhase | None = None
    notes: tuple[str, ...] = ()
    publishes_model: bool = True
    shares_steps: bool = True
    needs_lstm: bool = False

    def __post_init__(self) -> None:
        """Raises ConfigError: the rules promise more than what is read allows."""
        leaves_bare = self.view.nonprivate in ("redacted", "typed", "screened") or self.view.marks_tokens
        for rule in self.rules.values():
            if rule.rows is not None and (rule.rows == "original") != self.view.reads_original:
                raise ConfigError(
                    f"method '{self.name}': its view and a rule's rows = {rule.rows!r} contradict each other"
                )
            if leaves_bare and not rule.is_unnoised:
                raise ConfigError(
                    f"method '{self.name}' reads text of private records without noise: is_unnoised = True"
                )

    def described(self, optimizer: str) -> str:
        """``description`` with the optimizer that `pipelines.methods.settings.Optimized` chose."""
        takes_sgd = optimizer == "sgd" and issubclass(self.settings, Optimized)
        return self.description.replace("AdamW", "SGD") if takes_sgd else self.description

    @property
    def trains_on_public_rows(self) -> bool:
        """Whether it trains on whole rows without noise because the conservative policy let them pass.

        They are then published, too, for its model gives them away.
        """
        return self.view.nonprivate == "public_shard"

    @property
    def needs_masks(self) -> bool:
        """Whether it treats masks otherwise than text, so that nothing else may stand in their place.

        It leaves them out of a loss without noise, or the tokens below them: what it promises rests on that.
        """
        phase = self.first_phase
        views = (self.view, *((phase.view, *phase.views.values()) if phase else ()))
        read = ("redacted", "typed", "screened")
        return any(view.marks_tokens or (view.nonprivate in read and not view.asks_for_masks) for view in views)

    @property
    def is_unprotected(self) -> bool:
        """Whether it trains on original text without noise."""
        return self.view.nonprivate == "original"

    def rule(self, variant: str | None) -> MethodRule:
        """What can be claimed of it, or of one of its variants.

        Raises:
            KeyError: it has no such variant.
        """
        return replace(
            self.rules[variant], has_public_set=self.trains_on_public_rows, reads_spans=self.view.marks_tokens
        )
