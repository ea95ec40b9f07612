"""Microsoft Presidio's analyzer as a policy, on our own Docs and without any network (extra ``presidio``)."""

from __future__ import annotations

import functools
import importlib.util
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.errors import ConfigError
from pipelines.policies.protocol import PolicyOptions, Sentence, Span

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine


class PresidioPolicy:
    """Masks whatever the analyzer finds at its default threshold; labels and scores are Presidio's own.

    Its entities come from the Doc that the other policies share: the same recogniser as Presidio's, run without the
    parser, because a row is one sentence already.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"ner", "tagger", "attribute_ruler", "lemmatizer"})

    def __init__(self, options: PolicyOptions) -> None:
        if importlib.util.find_spec("presidio_analyzer") is None:
            raise ConfigError("policy 'presidio' needs the analyzer: run 'pip install reticent[presidio]'")
        self._name = options.name
        self._analyzer = _analyzer(options.model)  # made now, so that a broken install is no failing row

    def find(self, sentence: Sentence) -> list[Span]:
        """The analyzer's finds.

        Raises:
            ValueError: the sentence carries no Doc.
        """
        if sentence.doc is None:
            raise ValueError("presidio needs a Doc")
        # The analyzer works on the Doc's text, ours but for wide gaps; its finds are mapped by the Doc's tokens.
        text = sentence.doc.text
        artifacts = self._analyzer.nlp_engine._doc_to_nlp_artifact(sentence.doc, "en")
        of_doc = sentence if text == sentence.text else _retokenised(sentence)
        spans: list[Span] = []
        for found in self._analyzer.analyze(text, language="en", nlp_artifacts=artifacts):
            spans += of_doc.spans([(found.start, found.end, found.entity_type)], self._name, float(found.score))
        return spans


def _retokenised(sentence: Sentence) -> Sentence:
    assert sentence.doc is not None  # noqa: S101 - the caller has checked
    starts = [token.idx for token in sentence.doc]
    return Sentence(sentence.doc.text, starts, [token.idx + len(token) for token in sentence.doc], sentence.doc)


@functools.lru_cache(maxsize=1)
def _analyzer(model: str) -> AnalyzerEngine:
    """One analyzer a process, on the run's model, with the e-mail recogniser cut off from the network."""
    import tldextract
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine
    from presidio_analyzer.predefined_recognizers import EmailRecognizer
    from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider

    from pipelines.policies.language import load_pipeline

    # No cache folder and no list address: the suffix list that the package ships is the only one it can use.
    extract = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())

    class OfflineEmailRecognizer(EmailRecognizer):  # type: ignore[misc]
        """Presidio's own recogniser, checking domains against the shipped suffix list only."""

        def validate_result(self, pattern_text: str) -> bool:
            return bool(extract(pattern_text).fqdn)

    engine: Any = SpacyNlpEngine(models=[{"lang_code": "en", "model_name": model}])
    engine.nlp = {"en": load_pipeline(model, PresidioPolicy.needs)}  # set here, or load() would look for a download
    registry = RecognizerRegistryProvider(
        registry_configuration={"supported_languages": ["en"]}
    ).create_recognizer_registry()
    registry.add_nlp_recognizer(nlp_engine=engine)
    registry.remove_recognizer("EmailRecognizer")
    registry.add_recognizer(OfflineEmailRecognizer())
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=["en"])
