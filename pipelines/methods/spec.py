"""The description of a training method."""

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
        view: text that the phase reads.
        views: text that it reads instead, by variant.
        noised_variants: variants that add noise.
        figures: stage whose figures the phase reads, by variant.
        only_later: settings that count in the second phase alone.
        with_noise: settings that count in this phase if it adds noise.
        of_noise: settings of noise that count in this phase only.
        recipe: version, like `MethodSpec.recipe`.
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
        """Returns the text that the phase reads in a variant."""
        return self.views.get(variant or "", self.view)

    def unused(self, variant: str | None) -> frozenset[str]:
        """Returns the settings of the method that the phase does not use in a variant."""
        return self.only_later if variant in self.noised_variants else self.only_later | self.with_noise | self.of_noise


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A training method, as settings, checks, claims, model card and documentation see it.

    Attributes:
        name: name in ``train.method``.
        module: module that trains, with ``prepare(corpus, settings)`` (`pipelines.training.methods.base`).
        recipe: version of what the method does to records. Raise it if you change what the weights come from: only this
            number tells a model of an earlier version from one of this version.
        description: sentence for the model card that says what is done to which text.
        without_noise, with_noise: words for the table of methods: the text that it trains on in each way, if any.
        source: paper or package that the method comes from.
        settings: model of the settings that not every method has.
        view: text that the method reads, and its role.
        rules: claims that it can make, by variant; a method without variants has the one variant None.
        variant_setting: the setting that names the variant.
        first_phase: phase before it, if the method has one.
        notes: assumptions of its own, for every claim.
        publishes_model: flag that its model may lie in the public root; false if there is no bound on what the model
            tells of private rows.
        shares_steps: flag that several processes may take its steps together.
        needs_lstm: flag that it trains an LSTM, or a GRU, and no other network.
        no_people: reason why its private steps cannot sample people (``train.unit = "owner"``), if they cannot.
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
    no_people: str = ""

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
        """Tells if it trains on whole rows without noise because the conservative policy let them pass.

        These rows are then published, too, because its model gives them away.
        """
        return self.view.nonprivate == "public_shard"

    @property
    def needs_masks(self) -> bool:
        """Tells if it treats masks otherwise than text, so that nothing else may stand in their place.

        It leaves masks, or the tokens below them, out of a loss without noise: what it promises rests on that.
        """
        phase = self.first_phase
        views = (self.view, *((phase.view, *phase.views.values()) if phase else ()))
        read = ("redacted", "typed", "screened")
        return any(view.marks_tokens or (view.nonprivate in read and not view.asks_for_masks) for view in views)

    @property
    def is_unprotected(self) -> bool:
        """Tells if it trains on original text without noise."""
        return self.view.nonprivate == "original"

    def rule(self, variant: str | None) -> MethodRule:
        """Returns what can be claimed of the method, or of one of its variants.

        Raises:
            KeyError: it has no such variant.
        """
        return replace(
            self.rules[variant], has_public_set=self.trains_on_public_rows, reads_spans=self.view.marks_tokens
        )
