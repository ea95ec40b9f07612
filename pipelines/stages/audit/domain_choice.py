"""Audit across domains: the choice of the attacked domains, and checks before anything runs.

This module loads neither torch nor spaCy, because ``reticent plan`` imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pipelines.context import Piece
from pipelines.corpus.items import Document
from pipelines.corpus.readers import read_documents
from pipelines.errors import ConfigError
from pipelines.policies.detectors.keywords import label_of
from pipelines.policies.detectors.trained_folder import read_classifier

if TYPE_CHECKING:
    from pipelines.settings.redact import RedactConfig

DOMAIN_POLICIES: Final = ("classifier", "keywords")
"""The policies whose labels are domains."""
_FEWEST: Final = 2


def judging_policies(redact: RedactConfig) -> tuple[str, ...]:
    """Returns the masking policies of the run whose labels are domains."""
    return tuple(name for name in DOMAIN_POLICIES if name in redact.policies)


def judged_labels(redact: RedactConfig) -> frozenset[str]:
    """Returns the labels of the domains that these policies know.

    Raises:
        ConfigError: the classifier's folder holds no classifier.
    """
    used, domains = judging_policies(redact), set[str]()
    if "keywords" in used:
        domains.update(redact.keywords)
    if "classifier" in used and redact.classifier is not None:
        domains.update(read_classifier(Path(redact.classifier))["domains"])
    return frozenset(map(label_of, domains))


def attacked_domains(domains: Iterable[str | None], redact: RedactConfig) -> tuple[str, ...]:
    """Returns the domains of a corpus that the run's policies know, sorted.

    Raises:
        ConfigError: fewer than two such domains exist, or two of them have the same label.
    """
    known = judged_labels(redact)
    attacked = sorted({domain for domain in domains if domain and label_of(domain) in known})
    if len(attacked) < _FEWEST:
        raise ConfigError(
            f"audit.domains needs two domains at least that the policy {' or '.join(judging_policies(redact))} knows, "
            f"and the training text has {len(attacked)}; corpus.domain_field names the field with a document's domain, "
            "and redact.keywords, or the classifier, must call the domains as the corpus does"
        )
    if len({label_of(domain) for domain in attacked}) < len(attacked):
        raise ConfigError(
            "audit.domains: two domains of the corpus have the same label in policies; rename one of them"
        )
    return tuple(attacked)


def check_domain_audit(configs: Mapping[str, Any], pieces: Iterable[Piece]) -> None:
    """Checks before a run that the attack across domains can be made.

    Args:
        configs: settings by table.
        pieces: corpus, which is read until two domains are found that the run's policies know.

    Raises:
        ConfigError: the task, the policies, the tokenizer or the corpus does not allow the attack.
        InputError: the corpus cannot be read.
    """
    train, redact = configs["train"], configs["redact"]
    if train.head() != "causal" or not train.task_spec().has_speakers:
        raise ConfigError(
            f"audit.domains needs a model that continues conversations, which the task {train.task} does not train: "
            "leave audit.domains out, or train for language_modelling, dialogue or response"
        )
    if not judging_policies(redact):
        raise ConfigError(
            "audit.domains needs a policy whose labels are domains, and redact.policies has none: add keywords "
            "(redact.keywords = {DOMAIN = [...]}) or classifier (`reticent train-policy`)"
        )
    if train.tokenizer_kind() == "bpe_public" and redact.conservative is not None:
        raise ConfigError(
            "audit.domains compares scores of models on the same tokens. A vocabulary that is learnt on public rows "
            'changes without the rows of a domain: set train.tokenizer = "bytes", or name a pretrained model'
        )
    attacked_domains(_first_known(configs, pieces), redact)


def _first_known(configs: Mapping[str, Any], pieces: Iterable[Piece]) -> set[str]:
    """Returns two domains of the corpus that the policies know, or fewer if the corpus has no more."""
    known, options = judged_labels(configs["redact"]), configs["corpus"].read_options()
    first: set[str] = set()
    for piece in pieces:
        for item in read_documents(piece, options):
            if isinstance(item, Document) and item.domain and label_of(item.domain) in known:
                first.add(item.domain)
                if len({label_of(domain) for domain in first}) == _FEWEST:
                    return first
    return first
