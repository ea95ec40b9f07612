"""Names beside found ones, and names that kinship, roles and the layout of messages introduce."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from pipelines.policies.detectors.addresses import find_addresses
from pipelines.policies.detectors.fields.policy import find_in_fields
from pipelines.policies.detectors.identifiers import beside as beside_names
from pipelines.policies.detectors.identifiers.beside import find_beside
from pipelines.policies.detectors.identifiers.forms import find_forms
from pipelines.policies.detectors.identifiers.introduced import find_introduced
from pipelines.policies.detectors.identifiers.places import find_placed
from pipelines.policies.detectors.identifiers.policy import find_identifiers
from pipelines.policies.english.spoken_numbers import find_spoken_numbers
from pipelines.policies.protocol import Sentence, Span

STRANGERS = Path(__file__).parent / "short_texts_strangers.txt"


def sentence_of(marked: str) -> tuple[Sentence, list[Span]]:
    """Returns a text, and the find of a model for each part in brackets, such as "[Ann|PERSON]"."""
    text, finds, at = "", [], 0
    for match in re.finditer(r"⟦([^|⟧]*)\|?([^⟧]*)⟧", marked):
        text += marked[at : match.start()]
        finds.append((len(text), len(text) + len(match[1]), match[2] or "PERSON"))
        text += match[1]
        at = match.end()
    text += marked[at:]
    tokens = list(re.finditer(r"[\w\u0300-\u036f@]+|[^\w\s]", text))
    sentence = Sentence(text, [t.start() for t in tokens], [t.end() for t in tokens])
    return sentence, sentence.spans(finds, "model")


def beside(marked: str) -> list[str]:
    sentence, finds = sentence_of(marked)
    spans = sorted(set(find_beside(sentence, finds, "identifiers")))
    return [sentence.text[sentence.starts[s.start_token] : sentence.ends[s.end_token - 1]] for s in spans]


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("Zofia from payroll. ⟦Zofia Wrzesniak⟧. She knew.", ["Zofia"]),
        ("it was buddy, ⟦buddy okparaocha⟧, who fell", ["buddy"]),
        ("⟦Hunter Wrzesniak⟧ is ill, so ask Hunter later", ["Hunter"]),
        ("⟦Lê Thu Vy⟧ wrote:\nplease confirm.\n\nVy", ["Vy"]),
        ("⟦j.wrzesniak@dom.example|EMAIL_ADDRESS⟧, and wrzesniak has no l", ["wrzesniak"]),
        ("⟦Oluwadamilare|ORG⟧ Wrzesniak came", ["Wrzesniak"]),
        ("⟦Zofia⟧ ferch ⟦Gwilym|ORG⟧ came", ["ferch"]),
        ("for Hazel R. ⟦Wrzesniak⟧", ["Hazel", "R"]),
        ("spoke to WRZESNIAK, ⟦ZOFIA⟧, who left", ["WRZESNIAK"]),
        ("wed: ⟦Zofia⟧/⟦Kwaku⟧/Hunter", ["Hunter"]),
        ("met ⟦Obi-ageliaku⟧ and Obi-ageliaku again", ["Obi-ageliaku"]),
        ("tue: [⟦Zofia⟧, Obiageliaku]\nwed: [Obiageliaku]", ["Obiageliaku", "Obiageliaku"]),
        ("- ⟦Zofia⟧ (at 8)\n- Big Al\n- Obiageliaku + kids", ["Obiageliaku"]),
        ("1 ⟦Zofia⟧, 2 ⟦Kwaku⟧, 3 Hunter, 4 Jac O-J, 5 Obiageliaku", ["Hunter", "Jac", "O-J", "Obiageliaku"]),
        ("found [name=Ze\u0323nobi\u0300 ⟦Wrzesniak⟧]", ["Ze\u0323nobi\u0300"]),
    ],
)
def test_names_beside_found_ones_are_masked(marked, expected):
    assert beside(marked) == expected


@pytest.mark.parametrize(
    "marked",
    [
        "⟦Hunter Wrzesniak⟧ left. Hunter gatherers did not.",
        "⟦May Wrzesniak⟧ said you may go",
        "⟦NASA⟧ and NASA again",
        "⟦XQZT Wrzesniak⟧ built it. XQZT again",
        "⟦Zofia⟧ Called me, and ⟦Zofia⟧ Then left",
        "Bread, ⟦Zofia⟧, milk and honey",
        "- ⟦Zofia⟧\n- Bread\n- Milk",
        "⟦Acme Widget|ORG⟧ Obiageliaku",
        "⟦London|GPE⟧, Obiageliaku, Wrzesniak",
        "⟦x@dom.example|EMAIL_ADDRESS⟧ is Obiageliaku's",
        "⟦2020|DATE⟧ Obiageliaku",
    ],
)
def test_words_beside_names_stay(marked):
    assert beside(marked) == []


def test_the_first_look_leaves_out_only_rows_without_a_further_name(patch):
    """Every other secret of texts by strangers is found. The others may be added."""
    lines = [line.partition("\t")[2] for line in STRANGERS.read_text("utf-8").splitlines()[1:]]
    halves = [re.sub("⟦([^⟧]*)⟧([^⟦]*)⟦([^⟧]*)⟧", r"⟦\1⟧\2\3", line.replace("|", "/")) for line in lines]
    quick = [beside(half) for half in halves]
    looked = []
    patch(beside_names, "_may_add", lambda *_: looked.append(None) or True)
    assert [beside(half) for half in halves] == quick
    assert len(looked) == len(halves)
    assert sum(map(bool, quick)) > len(halves) / 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my husband obiageliaku is a driver", "obiageliaku"),
        ("his nan, Obiageliaku, kept it", "Obiageliaku"),
        ("it is her daughter here (Obiageliaku).", "Obiageliaku"),
        ("with my friend Hunter, and a dog", "Hunter"),
        ("Auntie Obiageliaku taught me", "Obiageliaku"),
        ("Hazel's mum rang", "Hazel"),
        ("hi, this is obiageliaku again", "obiageliaku"),
        ("This is Hunter speaking", "Hunter"),
        ("candidate 7, Soo-jin Wrzesniak, was late", "Soo-jin Wrzesniak"),
        ("Open at 9. Ask for Obiageliaku.", "Obiageliaku"),
        ("It works now. – Hunter", "Hunter"),
        ("Wound dry.\n- Z. Wrzesniak RN", "Z. Wrzesniak"),
        ("See you then!\n– Zofia & Obiageliaku", "Obiageliaku"),
        ("keys are in. Thanks, Obiageliaku x", "Obiageliaku"),
        ("Obiageliaku  9:15 AM\nwho has it?", "Obiageliaku"),
        ("the passenger Obiageliaku (8) was bruised", "Obiageliaku"),
        ("Parcel for Obiageliaku left at no 9", "Obiageliaku"),
        ("Passenger: WRZESNIAK/ZOFIA MRS\nRef", "WRZESNIAK/ZOFIA MRS"),
        ("Hi Obiageliaku\n\nplease see below", "Obiageliaku"),
        ("> Dear Zofia and Obiageliaku,\n> we", "Obiageliaku"),
        ("Husband of the late Obiageliaku, aged 90", "Obiageliaku"),
        ("the lock box by the gate, code 4417.", "4417"),
    ],
)
def test_introduced_names_are_found(text, expected):
    assert expected in {text[start:end] for start, end, _ in find_introduced(text)}


@pytest.mark.parametrize(
    "text",
    [
        "my husband snored and my friend recomended it",
        "my doctor, Because he can",
        "this is broken again",
        "hi its freezing here",
        "candidate 7, Strong on numbers",
        "They will ask for Directions at the desk",
        "It was cold. - Great",
        "Doors  7:30 PM\nMusic  8:00 PM",
        "AND/OR MR",
        "- Obiageliaku\n- Wrzesniak",
        "Obiageliaku  7:30 PM\nWrzesniak  8:00 PM",
        "a parcel for Christmas, and the tenant Union met",
        "Yesterday's mother of all storms",
        "Hi Team\n\nplease see below",
        "Dear Customer,\nwe write",
        "a friend of Science",
        "The gate failed. Error code 4417",
    ],
)
def test_plain_words_in_the_same_places_stay(text):
    assert not list(find_introduced(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Scrutineer: Hunter Wrzesniak (row 6)", "Hunter Wrzesniak"),
        ("Interviewing officer: Obiageliaku Nwosu-Bee. Ref: 7", "Obiageliaku Nwosu-Bee"),
        ("Interviewing officer: Obiageliaku Nwosu-Bee. Payroll ref of staff: 7", "Obiageliaku Nwosu-Bee"),
        ("Reported-by: Zofia Wrzesniak", "Zofia Wrzesniak"),
        ("Co-authored-by: zofia-w", "zofia-w"),
        ("Leaver: Obiageliaku Nwosu", "Obiageliaku Nwosu"),
        ("$ whoami\nzofiaw\n$ ls", "zofiaw"),
        ('File "/home/z.wrzesniak/a.py", line 3', "z.wrzesniak"),
        ("C:\\Users\\Zofia.W> dir", "Zofia.W"),
        ("AGENT: what is the security word please\nCALLER: it's purple lantern\nAGENT: thanks", "purple lantern"),
    ],
)
def test_fields_of_any_name_hold_persons(text, expected):
    assert expected in {text[start:end] for start, end, _ in find_in_fields(text)}


@pytest.mark.parametrize(
    "text",
    [
        "Colour: Dark Green",
        "Topic: Interest Rates",
        "Engine: Wrzesniak Turbo Diesel",
        "$ whoami\nroot",
        "/home/ubuntu/app and /Users/runner/work",
        "AGENT: and the security word please\nCALLER: I do not know it",
        "sorted-by: price",
    ],
)
def test_fields_of_any_name_leave_things(text):
    assert not find_in_fields(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("we are at three three oh one maple hollow road by the pond", "three three oh one maple hollow road"),
        ("it's nineteen Willow Avenue", "nineteen Willow Avenue"),
        ("Blk 52 Bedok St 12 #03-118 Singapore 460052", "Blk 52 Bedok St 12 #03-118 Singapore 460052"),
    ],
)
def test_addresses_in_words_and_of_blocks(text, expected):
    assert expected in {text[start:end] for start, end in find_addresses(text)}


@pytest.mark.parametrize("text", ["one of the roads", "one dirt road and two lanes", "see block 4 for the rest"])
def test_words_before_a_road_are_no_house_number(text):
    assert not find_addresses(text)


def test_letters_of_the_radio_alphabet_are_letters():
    text = "It is Tango, five, Kilo, Kilo, two, Papa. Yes."
    assert [text[start:end] for start, end, _ in find_spoken_numbers(text)] == ["Tango, five, Kilo, Kilo, two, Papa"]
    assert not list(find_spoken_numbers("m two delta alpha"))


def test_a_number_may_begin_with_letters():
    text = "my ID card, number QXZ 481 902, is lost"
    assert "QXZ 481 902" in {text[start:end] for start, end, _ in find_forms(text)}
    assert not list(find_forms("number F 16, and no. B 12"))


def test_one_listed_name_tells_that_lines_are_names():
    def found(text):
        words = list(re.finditer(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text))
        return {text[a:b] for a, b, _ in find_placed(text, words, [w[0].lower() for w in words])}

    lines = "D'ORSAYX, QUILLAN - P\nCHASE, HAZEL - A\nGARCIA, ZOFIA - P\nNGATAQ, HEMIW - L"
    assert {"CHASE, HAZEL", "NGATAQ, HEMIW"} <= found("REGISTER\n" + lines)
    assert "D'ORSAYX, QUILLAN" in found("REGISTER\n" + lines)
    assert not found("REGISTER\nD'ORSAYX, QUILLAN\nCHASE, HAZEL\nNGATAQ, HEMIW")


SLOW = [
    "my husband ",
    "- Xyzq\n",
    "Xyzq, ",
    "one two ",
    "Xyzq 9:15 AM\n",
    "ABC/DEF ",
    "ask for ",
    "security word\nA: ",
    "A. B.\n",
    "A. Xyzq\n",
]


@pytest.mark.parametrize("piece", SLOW)
def test_time_is_linear(piece):
    def seconds(count):
        text = piece * count
        sentence, _ = sentence_of(text)
        finds = [Span(0, 1, "PERSON", "model")]
        start = time.process_time()
        find_beside(sentence, finds, "identifiers")
        list(find_introduced(text))
        find_in_fields(text)
        find_addresses(text)
        return time.process_time() - start

    seconds(200)
    assert min(seconds(8_000) for _ in range(2)) < 16 * max(min(seconds(2_000) for _ in range(2)), 0.01)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Op note. Surgeon: Oyelaranmi. Scrub: two.", ["Oyelaranmi"]),
        ("Referee: Thistlewaite", ["Thistlewaite"]),
        ('<input name="ln" value="Bewindi"><input name="fn" value="Tumelo">', ["Bewindi", "Tumelo"]),
        ('<input name="qty" value="Bewindi">', []),
        ("Surgeon: Unavailable", []),
        ("Judge: yes", []),
    ],
)
def test_one_unknown_word_is_a_person_in_the_field_of_a_role(text, expected):
    assert [text[start:end] for start, end, _ in find_in_fields(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pay by noon.\n> J. Ormerodstone\nthe end", "J. Ormerodstone"),
        ("[02/03/24, 10:11:12] Zubaida 🌸: is it on", "Zubaida"),
        ("it went to fiona mcgillycuddy not to me", "fiona mcgillycuddy"),
        ("Frequent flyer: LO 88 4410 9921", "LO 88 4410 9921"),
        ("It is K for Kate, R for Rob, five, five, nine, X-ray, two. I am sure.", "K for Kate, R for Rob, five, five"),
        ("Wohnhaft Str. Morarilor 22", "Str. Morarilor 22"),
    ],
)
def test_forms_of_names_and_codes_are_found_whole(text, expected):
    found = [text[a:b] for a, b, *_ in [*find_identifiers(text), *find_addresses(text)]]
    assert any(expected in find for find in found)


@pytest.mark.parametrize("text", ["See D.I.C.E. and the rest", "See p. 4.\nE. coli\nthe end", "RT 12 34 of 90"])
def test_abbreviations_and_short_numbers_stay(text):
    assert find_identifiers(text) == []


def test_initials_before_a_found_name_belong_to_it():
    assert beside("the holder R K ⟦RAMASWAMY⟧ states") == ["R", "K"]
    assert beside("A ⟦Ramaswamy⟧ called and I ⟦Ramaswamy⟧ did not") == []
