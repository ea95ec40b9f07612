"""Makes the list of known things that `pipelines/policies/english/nobody.py` reads.

    python benchmarks/known_things.py --data-dir FOLDER

A thing is known if WordNet lists it with a capital among events, illnesses, plants, animals and other nouns that are
nobody's, if each of its words is in GPT-2's vocabulary, and if it is no place, work or name of persons (Faker,
WordNet). Terms are WordNet's words of medicine, and other words that GPT-2 has in small letters and that
`ordinary_words.py` leaves out because of their meaning, such as words of illness.
Words of titles are those that GPT-2 has with a capital before it has them in small letters ("committee").
FOLDER is that of `ordinary_words.py`. No corpus is read.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

from common import ROOT, command_line
from wordnet import WordNet

from pipelines.policies.english.common_words import AMBIGUOUS_WORDS
from pipelines.policies.english.known_words import WORDS
from pipelines.policies.english.name_lists import personal_names
from pipelines.policies.english.word_lists import word_lists

LIST = ROOT / "pipelines" / "policies" / "english" / "word_lists" / "known_things.toml"
_SHORTEST = 4
_LONGEST = 4
"""Words of a name. Longer ones are rare."""


_PLAIN = re.compile("[a-z]+")


def _pieces(word: str) -> list[str]:
    return [piece for piece in re.split(r"[_.'-]", word) if piece]


def known_things(folder: Path) -> tuple[set[str], set[str], set[str]]:
    """Returns known things, terms, and words of titles, in small letters, with "_" between words."""
    wordnet = WordNet(folder / "wordnet")
    ranks: dict[str, int] = json.loads((folder / "gpt2_tokenizer" / "vocab.json").read_text("utf-8"))
    names = personal_names() | AMBIGUOUS_WORDS | word_lists("places")["word_names"]
    persons = wordnet.persons()
    families = {_pieces(person)[-1] for person in persons}
    things = set()
    for word in wordnet.nobodys():
        lower, pieces = word.lower(), _pieces(word)
        if lower in persons or not 0 < len(pieces) <= _LONGEST or re.fullmatch(r"[A-Za-z_.'-]+", word) is None:
            continue
        if len(pieces) == 1 and (lower in names or len(word) < _SHORTEST or lower in families or lower in WORDS):
            continue
        if all("Ġ" + p in ranks or "Ġ" + p.lower() in ranks for p in pieces):
            things.add(lower)
    terms = {word for word in wordnet.medical() if len(word) >= _SHORTEST}
    titled: set[str] = set()
    for piece, rank in ranks.items():
        word = piece[1:]
        if piece[0] == "Ġ" and len(word) >= _SHORTEST and wordnet.is_plain(word):
            (terms if rank < ranks.get(f"Ġ{word.capitalize()}", len(ranks)) else titled).add(word)
    terms, titled = ({word for word in found if _PLAIN.fullmatch(word)} - names - WORDS for found in (terms, titled))
    return things, terms - persons - families - things, titled - terms - things


def main() -> None:
    given = command_line(__doc__, data_dir=True, out=LIST).parse_args()
    lists = dict(zip(("things", "terms", "titled"), known_things(given.data_dir), strict=True))
    tables = [
        f'{name} = """\n{textwrap.fill(" ".join(sorted(found)), 118, break_on_hyphens=False)}\n"""\n'
        for name, found in lists.items()
    ]
    given.out.write_text("# Made by `python benchmarks/known_things.py`.\n\n" + "\n".join(tables), "utf-8")
    print({name: len(found) for name, found in lists.items()})


if __name__ == "__main__":
    main()
