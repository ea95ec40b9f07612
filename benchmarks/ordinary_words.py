"""Makes the list of ordinary words that `pipelines/policies/english/ordinary.py` reads.

    python benchmarks/ordinary_words.py --data-dir FOLDER

A word is ordinary if WordNet lists it in small letters, if GPT-2's vocabulary has it in small letters before it has it
with a capital, and if it is no name: of a person (Faker), or of a place or single thing (WordNet). Words of illness,
faith, crime and the like are left out, because they may be a secret. FOLDER/wordnet holds WordNet's files (Debian's
package ``wordnet-base``), and FOLDER/gpt2_tokenizer GPT-2's vocabulary. No corpus is read.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from common import ROOT, command_line
from wordnet import WordNet

from pipelines.policies.english.common_words import AMBIGUOUS_WORDS, COMMON_WORDS, NUMBER_WORDS
from pipelines.policies.english.name_lists import personal_names
from pipelines.policies.english.word_lists import word_lists

LIST = ROOT / "pipelines" / "policies" / "english" / "word_lists" / "ordinary_words.toml"
_SHORTEST = 3
_MEANINGS = 2
"""First meanings of a word that are no illness, drug, crime or faith."""


def ordinary_words(folder: Path) -> set[str]:
    """Returns the words that are not in `COMMON_WORDS` already."""
    wordnet = WordNet(folder / "wordnet")
    ranks: dict[str, int] = json.loads((folder / "gpt2_tokenizer" / "vocab.json").read_text("utf-8"))
    names = wordnet.names() | personal_names() | AMBIGUOUS_WORDS | word_lists("places")["word_names"]
    found = set()
    for piece, rank in ranks.items():
        word = piece[1:]
        if piece[0] == "Ġ" and len(word) >= _SHORTEST and word.isascii() and word.isalpha() and word.islower():
            is_small = rank < ranks.get(f"Ġ{word.capitalize()}", len(ranks))
            if is_small and wordnet.is_plain(word) and not wordnet.is_sensitive(word, meanings=_MEANINGS):
                found.add(word)
    return found - names - COMMON_WORDS - NUMBER_WORDS


def main() -> None:
    given = command_line(__doc__, data_dir=True, out=LIST).parse_args()
    words = sorted(ordinary_words(given.data_dir))
    filled = textwrap.fill(" ".join(words), 118)
    given.out.write_text(f'# Made by `python benchmarks/ordinary_words.py`.\n\nwords = """\n{filled}\n"""\n', "utf-8")
    print(len(words))


if __name__ == "__main__":
    main()
