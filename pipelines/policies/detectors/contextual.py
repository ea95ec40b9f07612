"""Policies for the contextual levels of Just Fine-tune Twice, section 4, and for the variant in its authors' code.

In the paper, *low contextual* masks all entities, proper nouns, pronouns, and the subjects and objects of sentences.
*High contextual* also masks all verbs. The levels are nested: each masks at least the tokens of the level below it.

The authors' published code decides by dependency label. Any label that contains ``subj`` or ``obj`` counts, so the
object of a preposition counts and the indirect object (``dative``) does not. Its top level also masks the root of the
parse and tokens tagged ``VERB`` (not auxiliaries). Its top level also uses a semantic role labeller for predicates. The
policies here omit that, because nearly all predicates are verbs or roots.

Both variants mask the token itself and never its subtree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

if TYPE_CHECKING:
    from spacy.tokens import Token

SUBJECT_LABELS: Final = frozenset({"nsubj", "nsubjpass", "csubj", "csubjpass", "nsubj:pass", "csubj:pass"})
OBJECT_LABELS: Final = frozenset({"dobj", "obj", "iobj", "dative", "pobj"})
"""Dependency labels of subjects and objects, in spaCy's English models and in Universal Dependencies."""

VERB_TAGS: Final = frozenset({"VERB", "AUX"})
"""Tags of verbs. The paper masks all verbs, which include auxiliaries."""


class LowContextualPolicy(NamedPolicy):
    """Masks entities, proper nouns, pronouns, subjects and objects."""

    needs: ClassVar[frozenset[str]] = SPECS["low_contextual"].components

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns the entities by type, and every token that has a label of its own.

        Raises:
            ValueError: the sentence has no Doc.
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
        """Returns the reason to mask a token for its role. None if there is no reason."""
        if token.pos_ in ("PROPN", "PRON"):
            return str(token.pos_)
        if token.dep_ in SUBJECT_LABELS:
            return "SUBJ"
        return "OBJ" if token.dep_ in OBJECT_LABELS else None


class HighContextualPolicy(LowContextualPolicy):
    """Masks the tokens of the low contextual level, and all verbs."""

    def _label(self, token: Token) -> str | None:
        return super()._label(token) or ("VERB" if token.pos_ in VERB_TAGS else None)


class JftCodeLowPolicy(LowContextualPolicy):
    """Masks the low contextual level of the authors' code: labels that contain ``subj`` or ``obj``."""

    def _label(self, token: Token) -> str | None:
        # In the code, the part of speech has precedence over the dependency, and "obj" over "subj".
        if token.pos_ in ("PROPN", "PRON"):
            return str(token.pos_)
        dependency = token.dep_.lower()
        return "OBJ" if "obj" in dependency else "SUBJ" if "subj" in dependency else None


class JftCodePolicy(JftCodeLowPolicy):
    """Masks the high contextual level of the authors' code, without its semantic role labeller."""

    def _label(self, token: Token) -> str | None:
        if token.pos_ == "VERB":
            return "VERB"
        return "ROOT" if "root" in token.dep_.lower() else super()._label(token)
