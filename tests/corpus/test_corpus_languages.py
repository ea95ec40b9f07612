"""Which language a document is in."""

from __future__ import annotations

import pytest

from pipelines.corpus.languages import OTHER_SCRIPT, has_grammar, language_of, other_language

ENGLISH = "The parcel that we sent to you is late, and we are very sorry for this."
GERMAN = (
    "Guten Tag, meine Bestellung ist noch nicht da, und ich warte schon seit zwei Wochen auf eine Antwort von Ihnen."
)
SPANISH = "Hola, mi pedido no ha llegado y quiero que me devuelvan el dinero por favor, que no es para tanto."
GREEK = "Καλημέρα σας, το δέμα μου δεν έχει φτάσει ακόμα και περιμένω δύο εβδομάδες."


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        (GERMAN, ("en",), "de"),
        (SPANISH, ("en",), "es"),
        (GREEK, ("en",), OTHER_SCRIPT),
        (ENGLISH, ("de",), "en"),
        (ENGLISH, ("en",), None),
        (GERMAN, ("en", "de"), None),
        (GERMAN, ("xx",), None),  # no stop words to compare with
        (GREEK, ("el",), None),
        ("Danke, und bis bald!", ("en",), None),  # too short to tell
        (f"{ENGLISH} {GERMAN}", ("en",), None),  # a mixture
        ("Ann Lee, Bob Ray, Carl Frost, Dan Wolf, Eva Stone, Fred Hill, Gus Long, Hans Zimmer", ("en",), None),
        ("i want to go to my o o o o o o o o o o o o", ("en",), None),
        ("", ("en",), None),
    ],
)
def test_a_document_that_is_plainly_in_another_language_is_told(text, expected, found):
    assert other_language(text, expected) == found


def test_the_language_that_is_told():
    assert [language_of(text) for text in (ENGLISH, GERMAN, "one two", GREEK)] == ["en", "de", None, OTHER_SCRIPT]


def test_grammar_tells_sentences_from_names_and_addresses():
    assert has_grammar([ENGLISH])
    assert has_grammar([GERMAN])
    assert not has_grammar(["441 Patricia Mission Apt. 881 Port Jenniferstad, MA 19420", "Ann Lee", "7120 Mill Rd."])
    assert not has_grammar([])
