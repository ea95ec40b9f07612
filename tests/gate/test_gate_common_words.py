"""Which masked strings are everyday English and no name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.gate.common_words import _OF_CUSTOMERS, is_everyday, name_words
from pipelines.gate.strings import StringIndex, words_of
from pipelines.policies.english.common_words import COMMON_WORDS, COURTESY_WORDS, FUNCTION_WORDS, NUMBER_WORDS
from pipelines.policies.english.name_lists import personal_names
from pipelines.settings.gate import GateConfig

# Everyday words that lists of names hold. Reviewed: they are names in some sentences, and count as such.
OVERLAP = """
ball best black bridge bridges bright brown case chance cross dash early fields flower flowers glass golden green guy
hall handy head hope house judge key light little long love page park pool post power price quick rich royal seven sharp
short small smart strong summer sweet wall white wine winter wise wood worth young
"""
# And these do not, beside other everyday words. Reviewed: surnames of a few people, and names in other languages.
SELDOM_NAMES = """
age basic brand car company date day edit floor foot job lie line lot low lower pages parent read reader real room said
sales side street topic tours water way weeks
"""
# Words of grammar and courtesy that lists of names hold. Reviewed: they never count as names.
NEVER_NAMES = """
among an are arent back cant else good ha may more my over per soon the theres till too us were will
"""

# What small models once took for a person in public sets of dialogues, tweets and reviews.
FALSE_ALARMS = [
    *("email address", "isn't", "Isn’t", "ISN ' T", "good bye", "Good-bye!", "zip code", "gift card", "ok bye"),
    *("good morning", "good luck", "before bed", "you got", "good times", "thank you", "hello there", "debit card"),
    *(
        "confirmation number",
        "order id",
        "don't",
        "what's",
        "they'll",
        "credit card",
        "seat number",
        "good day",
        "street address",
        "hope",
        "seven",
    ),
]
# Further ones, as customers and agents of shops, airlines, banks and carriers say them.
OF_CUSTOMERS = """
promo code|boarding pass|order number|customer service|last name|first name|no problem|sounds good|phone number
account number|flight number|tracking number|credit score|bank account|serial number|billing address|date of birth
mother's maiden name|expiry date|routing number|wire transfer|economy class|frequent flyer|carry on|sim card|hello sir
dear customer|valued customer|tech support|online banking|drop off|loyalty points|seat assignment|identity theft
fraud alert|bank statement|auto pay|you're welcome|my bad|never mind|have a nice day|window seat|gate number|pizza
"""
# Words of it that lists of names hold: these stay searched.
WITH_A_NAME = """
bill pay|monthly bill|french fries|chase bank|bank of grace|dear mark|sir john|madam rose|tech mark|iced tea|grand total
smart phone|power button|winter coat|will pay bob|pizza frank|score young|sim lee|wire west|holly drop|molly bank
joy carry|rosa bank|angel fries|faith alert|carol birth|dean economy|bob valued|grace serial|amber routing|ruby transit
jean pizza
"""
SECRETS = [
    *(
        "Rich Hall",
        "Will Young",
        "Summer Hope",
        "Mark",
        "Jane Doe",
        "good Hope",
        "my Rich",
        "the Young",
        "Sunny Day",
        "Hope Day",
        "low price",
    ),
    *(
        "one two",
        "five five two",
        "double seven three",
        "blue dot sky",
        "black dash cat",
        "Ann's",
        "O'Brien",
        "Van't Hoff",
    ),
    *("card 4111", "code x", "AB 12", "zip code 90210", "hello José", "王小伟", "email jane"),
]


@pytest.mark.parametrize("text", [*FALSE_ALARMS, *OF_CUSTOMERS.strip().replace("\n", "|").split("|")])
def test_everyday_english_without_a_name_is_not_searched_for(text):
    choice = GateConfig().choice()
    assert choice.reason_against(choice.normalise(text), "PERSON") == "everyday"
    assert GateConfig(everyday_words=True).choice().reason_against(choice.normalise(text), "PERSON") is None


@pytest.mark.parametrize("text", SECRETS)
def test_names_numbers_and_rare_words_are_searched_for(text):
    choice = GateConfig().choice()
    assert choice.reason_against(choice.normalise(text), "PERSON") is None


def test_no_name_gets_past_the_words_that_customers_use():
    for text in WITH_A_NAME.strip().replace("\n", "|").split("|"):
        assert not is_everyday(words_of(text)), text
    assert _OF_CUSTOMERS.isdisjoint(COMMON_WORDS | NUMBER_WORDS)
    assert _OF_CUSTOMERS.isdisjoint(word for name in personal_names() for word in words_of(name))
    reviewed = {*SELDOM_NAMES.split(), *NEVER_NAMES.split()}
    names = {name for name in personal_names() if len(name) > 1 and name.isascii() and name.isalpha()} - reviewed
    assert len(names) > 10_000
    assert not [name for name in names if is_everyday(["bank", name])]


@pytest.mark.parametrize("label", ["PASSWORD", "CREDENTIAL", "PIN", "CODE+PASSWORD", "SECRET_KEY"])
def test_a_passphrase_of_everyday_words_is_searched_for(label):
    choice = GateConfig().choice()
    for text in (
        "purple table dance",
        "correct horse battery staple",
        "open the door please",
        "Email-Address",
        "one two",
    ):
        assert choice.reason_against(choice.normalise(text), label) is None, text
    # A single one, or one among words of grammar, stands in too many sentences.
    for text in ("table", "isn't", "it is open", "good"):
        assert choice.reason_against(choice.normalise(text), label) == "everyday", text
    assert choice.reason_against("open the door please", "PERSON") == "everyday"


def test_the_overlap_of_the_lists_is_the_reviewed_one():
    """A new version of the lists of names shows here: look at what came before adding it."""
    everyday = {word for listed in COMMON_WORDS | NUMBER_WORDS for word in words_of(listed)}
    assert sorted(everyday & name_words()) == sorted(OVERLAP.split())
    listed = {word for name in personal_names() for word in words_of(name) if len(word) > 1}
    grammar = {part for word in FUNCTION_WORDS | COURTESY_WORDS for part in words_of(word)}
    assert sorted((everyday & listed) - grammar - name_words()) == sorted(SELDOM_NAMES.split())
    listed = {word for name in personal_names() for word in words_of(name)} | {"may", "soon", "will"}
    grammar = {word for word in FUNCTION_WORDS | COURTESY_WORDS if len(word) > 1}
    assert sorted(listed & grammar) == sorted(NEVER_NAMES.split())


@given(
    st.lists(
        st.sampled_from(
            [*sorted(COMMON_WORDS), *sorted(NUMBER_WORDS), *OVERLAP.split(), *SELDOM_NAMES.split(), "zebulon", "7"]
        ),
        max_size=5,
    )
)
def test_the_rule_is_that_of_its_description(texts):
    words = words_of(" ".join(texts))
    if len(words) < 2:
        return
    is_known = all(w not in ("zebulon", "7", "dash", "dot", "hyphen", "underscore") for t in texts for w in words_of(t))
    expected = is_known and name_words().isdisjoint(words) and sum(text in NUMBER_WORDS for text in texts) <= 1
    if len(texts) > 1:  # one that has no more than one reading
        assert is_everyday(words) == expected


@pytest.mark.parametrize("text", ["I don't know", "i DON’T know", "you can't", "it ain't so"])
def test_a_name_is_not_found_in_a_contraction(text):
    assert StringIndex(dict.fromkeys(["don", "can", "ain", "t"], "NAME")).find(words_of(text)) == set()


@pytest.mark.parametrize("text", ["ask Don", "Don's car", "Don 't", "donít", "Don'T."])
def test_and_is_found_elsewhere(text):
    found = StringIndex({"don": "NAME"}).find(words_of(text))
    assert found == ({"don"} if text not in ("donít", "Don'T.") else set())
