"""`PrivacyEngine`: private training of an ordinary loop, with the usual names."""

from __future__ import annotations

import atexit
import math
import warnings
import weakref
from collections.abc import Mapping
from typing import Any, Final, Literal

import torch
from torch.utils.data import DataLoader

from pipelines.accounting.events import Composed, Event, NeighboringRelation, UnsupportedEventError, dp_sgd
from pipelines.dp.attach import foreign_rules
from pipelines.dp.clipping import AdaptiveClipping, ClippingName
from pipelines.dp.gradients import GradientEngine, ModeName
from pipelines.dp.isolation import PROBE_SIZE
from pipelines.dp.optimizer import PrivateOptimizer
from pipelines.dp.optimizer_checks import check_holds, check_trained
from pipelines.dp.planned import PlannedSteps, plan_of
from pipelines.dp.ranks import Ranks
from pipelines.dp.rules import FOREIGN_RULES
from pipelines.dp.sampling import PoissonLoader
from pipelines.dp.uses import MemoryBudget
from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.numbers import real
from pipelines.randomness import PrivateRandomness, seeded, unpredictable

_STATE_VERSION = 1

ASSUMPTIONS: Final = (
    "each number of the data set is one record, the same at every request; a record with several numbers counts as "
    "several",
    "examples stay independent of others and of their places in batches that were not compared: those after the last "
    "comparison, records unlike those that were compared; dropout and other random numbers do not depend on other "
    "examples",
    "the loop treats all batches alike, and computes the losses from the batch alone",
    "only the engine's noisy sums carry private values into weights: no state outside buffers and parameters, no hook "
    "on gradients or steps, no learning rate or decision that depends on losses, norms or the sizes of samples (a "
    "scheduler that was not passed to `schedule` skips the empty ones)",
    "the engine's sums are all that processes exchange of their records, and nobody looks at one process's sums",
    "only the final weights are published; pseudo-random Gaussian numbers in floating point are taken for real ones",
    "no record directs the rounding of sums: in float32 rounding adds less than 1e-4 max_grad_norm to what a record "
    "does",
)
"""Assumptions of `PrivacyEngine.get_epsilon` that nothing here checks."""


class PrivacyEngine:
    """An engine that makes a model, an optimizer and a data loader private, and counts the releases.

    Args:
        accountant: ``pld`` (tight upper bounds) or ``rdp``.
        relation: the neighbouring relation of `get_epsilon` and of calibration. Under ``add_or_remove_one`` the
            size of the data set is taken to be public.
        test_seed: seed that makes samples and noise repeatable, for tests. It voids the guarantee: see `is_guarantee`.
        insecure_test_seed: consent to a test_seed; True if and only if there is one.

    Only the final weights are covered by epsilon. Losses, norms, sample sizes and intermediate checkpoints that are
    published are releases of their own.
    """

    def __init__(
        self,
        *,
        accountant: Literal["pld", "rdp"] = "pld",
        relation: NeighboringRelation | str = NeighboringRelation.REPLACE_ONE,
        test_seed: int | None = None,
        insecure_test_seed: bool = False,
    ) -> None:
        """Raises ConfigError if the accountant gives no bound, or a seed comes without consent."""
        if accountant not in ("pld", "rdp"):
            raise ConfigError(f"accountant {accountant!r} gives no upper bound on epsilon; choose pld or rdp")
        if (test_seed is not None) != insecure_test_seed:
            raise ConfigError(
                "a test_seed makes the noise predictable, which voids the guarantee: set insecure_test_seed=True "
                "with it in tests, and neither of them otherwise"
            )
        self._accountant = accountant
        self._relation = NeighboringRelation(relation)
        self._test_seed = test_seed
        self._is_insecure = insecure_test_seed
        self._history: list[tuple[float, float, int]] = []
        self._num_records: int | None = None
        self._optimizer: PrivateOptimizer | None = None
        self._loader: PoissonLoader | None = None
        self._plan: PlannedSteps | None = None
        self._is_first = True

    def make_private(
        self,
        *,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data_loader: DataLoader[Any],
        noise_multiplier: float,
        max_grad_norm: float,
        clipping: ClippingName = "flat",
        mode: ModeName = "book_keeping",
        max_physical_batch_size: int | None = None,
        memory_budget: MemoryBudget | None = None,
        adaptive_clipping: AdaptiveClipping | None = None,
    ) -> tuple[torch.nn.Module, PrivateOptimizer, PoissonLoader]:
        """Returns private counterparts of a model, an optimizer and a loader.

        Args:
            module: the model. If it is wrapped in DistributedDataParallel, it is unwrapped, because the optimizer adds
                up over processes itself.
            optimizer: SGD, Adam, AdamW or another optimizer of torch, over the model's trainable parameters.
            data_loader: loader of a data set with a length. Its ``batch_size`` is the expected number of records in a
                step, over all processes. Poisson sampling replaces its order.
            noise_multiplier: noise standard deviation over ``max_grad_norm``, >= 0.
            max_grad_norm: limit to which the gradient norm of one record is clipped.
            clipping: ``flat``, ``automatic`` or ``per_layer``.
            mode: ``book_keeping`` (fast) or ``two_pass`` (least memory).
            max_physical_batch_size: most records in one run of the model; larger samples come in parts.
            memory_budget: memory for the engine's temporary values.
            adaptive_clipping: settings of a clipping norm that follows a quantile of the gradient norms, beginning at
                ``max_grad_norm``. It needs ``flat`` clipping. Epsilon is the same.

        Returns:
            The model, with its layers under the engine's rules, the optimizer and the loader. The loader's first
            batches, at most 10 of at most 10 records, are compared and enter no step (``optimizer.is_probing``). So
            are two batches once in steps 8 to 15, 16 to 31, 32 to 63, and in each 64 steps that follow.

        Raises:
            ConfigError: arguments that do not fit together.
            InputError: the data set is empty.
            UnsupportedLayerError: a trainable parameter without a rule.
            IsolationError: a module that mixes or remembers examples is in training mode.
        """
        if not (math.isfinite(noise_multiplier) and noise_multiplier >= 0):
            raise ConfigError(f"noise_multiplier must be a finite number >= 0, not {noise_multiplier}")
        if max_physical_batch_size is not None and max_physical_batch_size < 1:
            raise ConfigError(f"max_physical_batch_size must be at least 1, not {max_physical_batch_size}")
        if adaptive_clipping is not None and clipping != "flat":
            raise ConfigError("adaptive_clipping goes with clipping='flat': it counts whole gradients within one norm")
        if self._optimizer is not None:
            raise ConfigError("this engine has made a model private already; take a new one for another model")
        plan = plan_of(data_loader, 1)
        if adaptive_clipping is not None:
            adaptive_clipping.noise_on_gradients(noise_multiplier, plan.expected_batch_size)
        if isinstance(module, torch.nn.parallel.DistributedDataParallel):
            module = module.module
        gradients = GradientEngine(
            module, max_grad_norm=max_grad_norm, clipping=clipping, mode=mode, budget=memory_budget
        )
        check_holds(optimizer, gradients.parameters)
        check_trained(optimizer, module)
        ranks = Ranks.here()
        self._is_first = ranks.is_first
        ranks.follow_first(parameter.data for parameter in module.parameters())
        self._num_records = len(data_loader.dataset)  # type: ignore[arg-type]
        setting = (float(noise_multiplier), plan.sample_rate)
        private = PrivateOptimizer(
            optimizer,
            gradients,
            noise_multiplier=noise_multiplier,
            expected_batch_size=plan.expected_batch_size,
            before_step=lambda: self._count(*setting),
            ranks=ranks,
            adaptive=adaptive_clipping,
        )
        self._optimizer = private
        loader = PoissonLoader(
            data_loader,
            plan,
            private,
            self._randomness(ranks),
            max_physical_batch_size=max_physical_batch_size,
            ranks=ranks,
            # At least two if possible: a sample of expected size 1 often has more.
            probe_size=min(PROBE_SIZE, max(2, plan.expected_share(ranks))),
            after_pass=self._after_pass,
        )
        self._loader = loader
        return module, private, loader

    def make_private_with_epsilon(
        self,
        *,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data_loader: DataLoader[Any],
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        max_grad_norm: float,
        clipping: ClippingName = "flat",
        mode: ModeName = "book_keeping",
        max_physical_batch_size: int | None = None,
        memory_budget: MemoryBudget | None = None,
        adaptive_clipping: AdaptiveClipping | None = None,
    ) -> tuple[torch.nn.Module, PrivateOptimizer, PoissonLoader]:
        """Calls `make_private` with the least noise that keeps ``epochs`` passes within (epsilon, delta), by PLD.

        Further steps are refused.

        Raises:
            ConfigError: arguments that do not fit together, or a target that no noise reaches.
        """
        from pipelines.accounting.calibration import calibrate_noise_multiplier

        if epochs < 1:
            raise ConfigError(f"epochs must be at least 1, not {epochs}")
        plan = plan_of(data_loader, epochs)
        noise_multiplier = calibrate_noise_multiplier(
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            sample_rate=plan.sample_rate,
            num_steps=plan.num_steps,
            relation=self._relation,
        )
        made = self.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=data_loader,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            clipping=clipping,
            mode=mode,
            max_physical_batch_size=max_physical_batch_size,
            memory_budget=memory_budget,
            adaptive_clipping=adaptive_clipping,
        )
        self._warn_about(target_delta)
        self._plan = PlannedSteps(plan.num_steps, plan.steps_per_epoch, target_epsilon, target_delta)
        atexit.register(_say_at_exit, weakref.ref(self))
        return made

    @property
    def event(self) -> Event:
        """The privacy event of the steps taken so far, for an accountant."""
        return Composed(
            events=tuple(
                dp_sgd(noise_multiplier=noise, sample_rate=rate, num_steps=steps)
                for noise, rate, steps in self._history
            )
        )

    @property
    def num_steps(self) -> int:
        """The number of noisy steps taken, those before a resume included."""
        return sum(steps for _, _, steps in self._history)

    @property
    def made(self) -> tuple[PrivateOptimizer, PoissonLoader]:
        """The optimizer and the loader that `make_private` returned. ConfigError before."""
        if self._optimizer is None or self._loader is None:
            raise ConfigError("call make_private or make_private_with_epsilon of this engine first")
        return self._optimizer, self._loader

    @property
    def target_delta(self) -> float | None:
        """The delta of `make_private_with_epsilon`; None without a target epsilon."""
        return None if self._plan is None else self._plan.target_delta

    @property
    def num_planned_steps(self) -> int | None:
        """The number of noisy steps that the noise was chosen for; None without a target epsilon."""
        return None if self._plan is None else self._plan.num_steps

    @property
    def is_guarantee(self) -> bool:
        """True if `get_epsilon` is a guarantee, under `assumptions`.

        It is false before examples were compared, after they were found to depend on each other, and if any step drew
        from a test seed.
        """
        return not self._is_insecure and self._optimizer is not None and self._optimizer.is_compared

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The unchecked assumptions of the guarantee. What could not be compared comes last."""
        if self._optimizer is None:
            return ASSUMPTIONS
        foreign = ", ".join(foreign_rules(self._optimizer.model))
        return (*ASSUMPTIONS, *((FOREIGN_RULES.format(foreign),) if foreign else ()), *self._optimizer.notes)

    def get_epsilon(self, delta: float) -> float:
        """Returns the epsilon of the steps taken so far, an upper bound under the engine's relation.

        Warns if delta is at least one over the number of records, the seed is a test seed, or a loop has ended before
        the planned steps were taken.

        Raises:
            ConfigError: the accountant does not cover Poisson sampling under the relation (RDP under replacement).
        """
        self._warn_about(delta)
        if self._is_insecure:
            warnings.warn("insecure_test_seed is on: this epsilon is no guarantee", stacklevel=2)
        if self._plan is not None and self._plan.is_left(self.num_steps) and not self._is_running():
            self._warn_of_steps(self._plan)
        return self._epsilon(delta)

    def warn_if_steps_are_left(self) -> None:
        """Warns if training has ended before the planned steps were taken: of how many, and what epsilon they spent.

        The loader calls it after the planned epochs, `PrivacyCallback` at the end of a training, and the program at its
        end. It warns once for a number of steps. Without a target epsilon, or without a step, it says nothing.
        """
        if self._plan is not None and self._plan.is_unsaid(self.num_steps) and self._is_first:
            self._warn_of_steps(self._plan)

    def _warn_of_steps(self, plan: PlannedSteps) -> None:
        spent = self._epsilon(plan.target_delta)
        warnings.warn(plan.message(self.num_steps, spent), stacklevel=3)

    def _is_running(self) -> bool:
        return self._loader is not None and self._loader.is_running

    def _after_pass(self) -> None:
        if self._plan is not None and self._plan.end_pass():
            self.warn_if_steps_are_left()

    def _epsilon(self, delta: float) -> float:
        from pipelines.accounting import accountants

        try:
            if self._accountant == "pld":
                return accountants.epsilon(self.event, delta, self._relation)
            found = accountants.rdp_epsilon(self.event, delta, self._relation)
        except UnsupportedEventError as error:
            raise ConfigError(f"{error}; use accountant='pld'") from error
        if found is None:
            raise ConfigError("the RDP accountant does not cover sampling under replacement; use accountant='pld'")
        return found

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that a resumed run needs to continue counting. A resumed run draws new randomness."""
        return {
            "version": _STATE_VERSION,
            "history": [list(entry) for entry in self._history],
            "is_insecure": self._is_insecure,
            **({} if self._optimizer is None else {"max_grad_norm": self._optimizer.max_grad_norm}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads the counts of a saved engine. Call it after make_private and before the first step.

        Raises:
            ConfigError: the state has no known form.
            PrivacyGateError: steps were taken already, or the saved run has used up the planned steps.
        """
        if self._history:
            raise PrivacyGateError("load the state before the first step: steps that were taken must stay counted")
        try:
            if state["version"] != _STATE_VERSION:
                raise ValueError
            history = [(float(noise), float(rate), int(steps)) for noise, rate, steps in state["history"]]
            is_insecure = bool(state["is_insecure"])
            max_grad_norm = None if "max_grad_norm" not in state else float(state["max_grad_norm"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError("this is not the state of a PrivacyEngine that this version can read") from error
        if self._plan is not None:
            num_steps = sum(steps for _, _, steps in history)
            if num_steps > self._plan.num_steps:
                raise PrivacyGateError("the saved run took more steps than are planned; plan at least as many epochs")
            self._plan.resume(num_steps)
        self._history = history
        self._is_insecure = self._is_insecure or is_insecure
        if self._optimizer is not None:
            self._optimizer.num_steps = self.num_steps
            if max_grad_norm is not None and self._optimizer.is_adaptive:
                self._optimizer.max_grad_norm = max_grad_norm

    def _count(self, noise_multiplier: float, sample_rate: float) -> None:
        # Counted before the step, so that an interrupted step is counted too.
        if self._plan is not None and self.num_steps >= self._plan.num_steps:
            raise PrivacyGateError(
                "the planned steps are used up: another one would exceed target_epsilon. Stop here, or plan more "
                "epochs from the start"
            )
        if self._history and self._history[-1][:2] == (noise_multiplier, sample_rate):
            self._history[-1] = (noise_multiplier, sample_rate, self._history[-1][2] + 1)
        else:
            self._history.append((noise_multiplier, sample_rate, 1))

    def _randomness(self, ranks: Ranks) -> PrivateRandomness:
        return unpredictable if self._test_seed is None else seeded(self._test_seed, ranks.rank)

    def _warn_about(self, delta: float) -> None:
        if self._num_records and delta >= 1 / self._num_records:
            warnings.warn(
                f"delta {real(delta)} is not below 1/{self._num_records}, one over the number of records: a mechanism "
                "that publishes one random record would satisfy it. Choose a smaller delta",
                stacklevel=3,
            )


def _say_at_exit(engine: weakref.ref[PrivacyEngine]) -> None:
    if (found := engine()) is not None:
        found.warn_if_steps_are_left()
