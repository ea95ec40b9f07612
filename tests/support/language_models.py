"""Small models of other languages, trained on made-up text and installed as spaCy's own are."""

import functools
import json
import py_compile
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.policies.learning.examples import Example
from pipelines.policies.learning.spacy_ner import train_spacy
from support.session import made_once

WORDS = {
    "de": {
        "PER": "Anne Keller, Jonas Vogt, Petra Lindner, Uwe Brandt, Katrin Engel, Lukas Sommer",
        "LOC": "Berlin, Hamburg, Leipzig, Bremen, Kassel, Dresden, Freiburg, Rostock",
        "ORG": "Siemens, Lufthansa, Bosch, Allianz, Commerzbank, Telekom",
        "MISC": "Tatort, Oktoberfest, Bambi",
        "texts": "Gestern hat PER in LOC angerufen.|Ich habe mit PER gesprochen und dann war ich bei ORG.|"
        "Wir wohnen seit Jahren in LOC und das ist schön.|PER arbeitet bei ORG in LOC.|"
        "Am Abend haben wir MISC gesehen.|Das ist nicht meine Rechnung.|"
        "Bitte schicken Sie mir die Unterlagen noch einmal zu.|Das Wetter war heute gut.|"
        "Die neue Wohnung hat einen großen Garten und eine Küche.|Können Sie PER fragen, ob das so richtig ist?",
    }
}


def _examples(language: str, number: int) -> list[Example]:
    chosen = random.Random(language)
    words = WORDS[language]
    examples = []
    for _ in range(number):
        pieces, spans, at = [], [], 0
        for word in chosen.choice(words["texts"].split("|")).split(" "):
            label = word.strip(".,?")
            if label in words and label != "texts":
                value = chosen.choice(words[label].split(", "))
                spans.append((at, at + len(value), label))
                word = word.replace(label, value)
            pieces.append(word)
            at += len(word) + 1
        examples.append(Example(" ".join(pieces), tuple(spans)))
    return examples


def installed(language: str) -> Iterator[str]:
    """The name of a language's model, which can be imported meanwhile; trained once in a session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(made_once(f"model-{language}", functools.partial(_install, language=language))))
        yield _name(language)


def _name(language: str) -> str:
    return f"{language}_core_news_sm"


def _install(folder: Path, language: str) -> None:
    """Trains a model, and installs it in a folder, which must be on the path of modules."""
    name = _name(language)
    nlp = train_spacy(_examples(language, 240), language=language, epochs=8, noise=False)
    nlp.meta |= {"name": "core_news_sm", "version": "3.8.0"}
    (folder / name).mkdir()
    nlp.to_disk(folder / name / f"{name}-3.8.0")
    (folder / name / "meta.json").write_text(json.dumps(nlp.meta))
    (folder / name / "__init__.py").write_text(
        "from pathlib import Path\nfrom spacy.util import load_model_from_init_py\n\n\n"
        "def load(**overrides):\n    return load_model_from_init_py(Path(__file__), **overrides)\n"
    )
    py_compile.compile(str(folder / name / "__init__.py"))  # so that nobody who imports it writes here
    made = folder / f"{name}-3.8.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 3.8.0\n")
    (made / "RECORD").write_text("")
