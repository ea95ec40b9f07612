"""Privacy accounting: epsilon from the events of a mechanism, calibration of noise, and confidentiality by redaction.

Events describe what ran. Accountants turn events into epsilon. `epsilon` uses privacy loss distributions (PLD), which
are tight and always an upper bound. PLD also replaces the PRV accountant of papers (Gopi, Lee and Wutschitz 2021). RDP
and the Gaussian limit (GDP) are available too. The default relation is ``replace_one``, which confidentiality needs.

    >>> from reticent.accounting import calibrate_noise_multiplier, dp_sgd, epsilon
    >>> training = dp_sgd(noise_multiplier=1.0, sample_rate=0.01, num_steps=1000)
    >>> round(epsilon(training, delta=1e-5, relation="add_or_remove_one"), 2)
    1.83
    >>> noise = calibrate_noise_multiplier(target_epsilon=3, target_delta=1e-5, sample_rate=0.01, num_steps=1000)
    >>> epsilon(dp_sgd(noise_multiplier=noise, sample_rate=0.01, num_steps=1000), delta=1e-5) <= 3
    True

Confidentiality (CRT, Theorem 8): compose first, then give credit for redaction once.

    >>> from reticent.accounting import PrivacyLoss, bayesian_confidentiality
    >>> from reticent.miss_rate import Delta2, FalseNegativeRate
    >>> gamma = FalseNegativeRate(value=0.01, upper=0.02, confidence=0.95, mu="the labelled secrets")
    >>> claim = bayesian_confidentiality(PrivacyLoss(3.0, 1e-5), gamma, Delta2.zero(gamma.mu))
    >>> round(claim.epsilon, 3), claim.is_guarantee
    (0.323, True)
"""

from pipelines.accounting.accountants import (
    EpsilonFigure,
    all_epsilons,
    epsilon,
    gdp_clt_epsilon,
    gdp_epsilon,
    pld_lower_epsilon,
    rdp_epsilon,
)
from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.claim_builder import Claim
from pipelines.accounting.confidentiality import (
    AmplifiedLoss,
    PrivacyLoss,
    amplify_epsilon,
    bayesian_confidentiality,
    compose,
    group_confidentiality,
    group_loss,
    jft_amplified,
    num_missed_of_group,
)
from pipelines.accounting.events import (
    Composed,
    Event,
    Gaussian,
    NeighboringRelation,
    NoEvent,
    NonPrivate,
    PoissonSampled,
    SelfComposed,
    UnsupportedEventError,
    dp_sgd,
)
from pipelines.accounting.ledger import Release, composed_epsilon

__all__ = [
    "AmplifiedLoss",
    "Claim",
    "Composed",
    "EpsilonFigure",
    "Event",
    "Gaussian",
    "NeighboringRelation",
    "NoEvent",
    "NonPrivate",
    "PoissonSampled",
    "PrivacyLoss",
    "Release",
    "SelfComposed",
    "UnsupportedEventError",
    "all_epsilons",
    "amplify_epsilon",
    "bayesian_confidentiality",
    "calibrate_noise_multiplier",
    "compose",
    "composed_epsilon",
    "dp_sgd",
    "epsilon",
    "gdp_clt_epsilon",
    "gdp_epsilon",
    "group_confidentiality",
    "group_loss",
    "jft_amplified",
    "num_missed_of_group",
    "pld_lower_epsilon",
    "rdp_epsilon",
]
