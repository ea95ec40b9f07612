"""The contextual levels of Just Fine-tune Twice, section 4, and the variant that its authors' code runs.

The paper: *low contextual* masks all entities, proper nouns, pronouns, and the subjects and objects of sentences; *high
contextual* masks all verbs as well. The levels are nested: each masks at least what the one below it masks.

The code that the authors published decides by dependency label: any label that contains ``subj`` or ``obj`` counts,
so the object of a preposition does and the indirect object (``dative``) does not; at the top level the root of the
parse and tokens tagged ``VERB`` (not auxiliaries) are masked too. Its top level also asks a semantic role labeller for
predicates, which is not run here: nearly all predicates are verbs or roots.

Either way the token itself is masked and never its subtree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

if TYPE_CHECKING:
    from spacy.tokens import Token

SUBJECT_LABELS: Final = frozenset({"nsubj", "nsubjpass", "csubj", "csubjpass", "nsubj:pass", "csubj:pass"})
OBJECT_LABELS: Final = frozenset({"dobj", "obj", "iobj", "dative", "pobj"})
"""Dependency labels of subjects and objects: those of spaCy's English models, and their Universal Dependencies kin."""

VERB_TAGS: Final = frozenset({"VERB", "AUX"})
"""The paper says all verbs, so auxiliaries too."""


class LowContextualPolicy(NamedPolicy):
    """Masks entities, proper nouns, pronouns, subjects and objects."""

    needs: ClassVar[frozenset[str]] = SPECS["low_contextual"].components

    def find(self, sentence: Sentence) -> list[Span]:
        """Entities by type, then every other token that has a reason.

        Raises:
            ValueError: the sentence carries no Doc.
        """
        if sentence.doc is None:
            raise ValueError("a contextual policy needs a Doc")
        spans = [Span(e.start, e.end, e.label_, self._name) for e in sentence.doc.ents]
        for token in sentence.doc:
            label = self._label(token)
            if label is not None:
                spans.append(Span(token.i, token.i + 1, label, self._name))
        return spans

    def _label(self, token: Token) -> str | None:
        """Why a token is masked whether or not it is part of an entity; None if it is not."""
        if token.pos_ in ("PROPN", "PRON"):
            return str(token.pos_)
        if token.dep_ in SUBJECT_LABELS:
            return "SUBJ"
        return "OBJ" if token.dep_ in OBJECT_LABELS else None


class HighContextualPolicy(LowContextualPolicy):
    """Masks what the low contextual level masks, and all verbs."""

    def _label(self, token: Token) -> str | None:
        return super()._label(token) or ("VERB" if token.pos_ in VERB_TAGS else None)


class JftCodeLowPolicy(LowContextualPolicy):
    """The low contextual level as the authors' code runs it: labels that contain ``subj`` or ``obj``."""

    def _label(self, token: Token) -> str | None:
        # The code writes the part of speech over the dependency, and "obj" over "subj", where both hold.
        if token.pos_ in ("PROPN", "PRON"):
            return str(token.pos_)
        dependency = token.dep_.lower()
        return "OBJ" if "obj" in dependency else "SUBJ" if "subj" in dependency else None


class JftCodePolicy(JftCodeLowPolicy):
    """The high contextual level as the authors' code runs it, short of its semantic role labeller."""

    def _label(self, token: Token) -> str | None:
        if token.pos_ == "VERB":
            return "VERB"
        return "ROOT" if "root" in token.dep_.lower() else super()._label(token)
