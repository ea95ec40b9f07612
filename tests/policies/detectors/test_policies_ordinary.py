"""Finds that no careful reader would mask, and the setting of dates and numbers."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reticent
from pipelines.policies.english.known_words import is_title, runs_of
from pipelines.policies.english.nobody import is_of_nobody, row_of
from pipelines.policies.english.ordinary import is_ordinary, without_ordinary
from pipelines.policies.english.wholes import is_covered, wholes_of
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.protocol import Sentence, Span
from pipelines.settings.redact import RedactConfig

POLICIES = ("high_entity", "presidio", "addresses", "identifiers")


def _masked(text: str, dates_and_numbers: str) -> list[str]:
    found = reticent.redact(
        [text],
        policies=POLICIES,
        check_language=False,
        dates_and_numbers=dates_and_numbers,  # type: ignore[arg-type]
    )
    return [text[find.start : find.end] for find in found[0].finds]


@pytest.mark.parametrize(
    "text",
    [
        "x = np.random.rand(3)",
        "Give paracetamol 500 mg twice daily.",
        "The answer is in section 4 of RFC 2616.",
        "ts=1700000123.25 level=debug msg=ok",
        "Family history of Alzheimer's disease.",
    ],
)
def test_no_mode_masks_code_doses_standards_and_eponyms(text: str) -> None:
    assert _masked(text, "careful") == _masked(text, "identifying") == []


@pytest.mark.parametrize("text", ["We met on 3 July.", "We sold 1,200 tickets."])
def test_identifying_leaves_dates_and_numbers_without_a_cue(text: str) -> None:
    assert _masked(text, "careful")
    assert not _masked(text, "identifying")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("She was born on 4 March 1987 in the north.", "1987"),
        ("Call 020 7946 0018 after lunch.", "7946"),
        ("He is 79 years old now.", "79"),
        ("My account number is 48210.", "48210"),
    ],
)
def test_identifying_masks_dates_and_numbers_with_a_cue_or_form(text: str, secret: str) -> None:
    assert any(secret in find for find in _masked(text, "identifying"))


@pytest.mark.parametrize(
    "text",
    [
        "See you on Friday at 3 pm, I'll bring 4 friends.",
        "It takes 20 minutes, or half an hour.",
        "TypeError: expected str",
        "os.remove(path) and ./run.sh --verbose",
        "WBC 7.1, BP 130/85, given 500 mg amoxicillin for 7 days",
        "while n > 5: n -= 2",
        "Netflix is down again and so is YouTube.",
        "Merry Christmas and a happy new year!",
        "The Industrial Revolution began in Great Britain.",
        "Can someone recommend a good Thai place?",
        "Wound 3 x 2 cm, T 37.1 C, 55-60 %.",
        "Bumped numpy from 17.0.2 to 18.2.0",
        "Cardiology and Nephrology agree on the plan.",
        "The Roman Empire reached its greatest extent in the second century.",
        "Homo sapiens left Africa roughly 70,000 years ago.",
        "Real Madrid won 3-1, what a game",
        "ERROR 2024-03-12 10:15:32,114 [main] Pool exhausted after 30000 ms",
        "@Override public int size() { return 3; }",
        "public static final int DEFAULT_PORT = 8080;",
        "The NDA goes to the lawyers before the kick-off.",
        "Na 138, K 4.1, Cl 102, BUN 14, Cr 0.9.",
        "Visual acuity was 20/40 and 20/25 in that test.",
        "The Finance Committee approved the plan as of January.",
        "The argument `batch_size` goes to torch.compile as it is.",
        "The band released its second album in March 2004.",
        "The offices will be closed from 24 December to 2 January.",
    ],
)
def test_careful_leaves_numbers_and_times_of_everyday_use(text: str) -> None:
    assert _masked(text, "careful") == []


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("I'm 29 and still in school.", "29"),
        ("She turned eighty last week.", "eighty"),
        ("Deliver it to 9 Rosehip Cottage.", "9"),
        ("It is five five oh one two.", "five"),
        ("The wedding was in nineteen ninety four.", "nineteen"),
        ("The code for room 14 is 3.", "14"),
        ("We met on 4 March.", "4"),
        ("TODO(jhollis): remove", "jhollis"),
        ("meet me at cafe lumiere at 6:10", "6:10"),
        ("My pension is 46 quid.", "46"),
        ("i need the 10 gb plan", "10"),
        ("nearly seventy seven yr old male", "seventy"),
        ("i turn almost sixty next month", "sixty"),
        ("9 rose cottage is where we met", "9"),
        ("Mr. Leiva flew to Oslo on Tuesday morning.", "Tuesday"),
        ("I work at Target.", "Target"),
        ("Anna Keller moved to Germany.", "Germany"),
        ("The gate code is 8989 and then pull hard.", "8989"),
        ("Kwabena French, 80F, osa, stable", "80"),
        ("The order from Family Dollar is late", "Dollar"),
        ("our wedding is on August 1 and the caterer just cancelled", "August"),
        ("We moved to Portugal last year.", "Portugal"),
        ("DJ Khaled looks exactly like the other one", "Khaled"),
        ("forward to b bell 1 at qq asap", "1"),
        ("Our street, Cobbler's Row, floods every spring.", "Cobbler"),
        ("The agency designs chairs and is based in Espoo.", "Espoo"),
        ("Climate Corporation is the brainchild of two founders.", "Climate"),
        ("The Social Health Insights Orchestra plays on the lawn.", "Orchestra"),
        ("Grochowa 80 and the road to the mill cross here.", "80"),
        ("The parcel goes to flat 14/22 on the second floor.", "14/22"),
        ("The wedding takes place on the first of November.", "November"),
        ("The handle moonlit_ferret of that function's author is new.", "moonlit_ferret"),
        ("Poland won the final of the cup in the city.", "Poland"),
        ("hope 10 gb could do all", "10"),
        ("yeah its hyundai in that case", "hyundai"),
        ("the order from American Eagle is late again", "American"),
        ("My order ER-7913-PR has not arrived yet.", "7913"),
    ],
)
def test_careful_masks_numbers_that_may_be_part_of_more(text: str, secret: str) -> None:
    assert any(secret in find for find in _masked(text, "careful"))


@pytest.mark.parametrize(
    "text",
    [
        "Upgrade from 2.07.14 to firmware 2.08.11 first; 2.07.x is out of support.",
        "The crash appeared in 5.12.09 and was fixed in 5.12.21, build 40817.",
        "The rod is 1.2045 m long at 21 °C, and the 4 mm x 20 m cable carries 12.5 A for 3 min 40 s.",
        "Panels of 1800 x 900 x 12 mm and a 6400 mAh pack: three days of work.",
        "Take one or two capsules every six to eight hours, and no more than six in 24 hours.",
        "The archive is open Tuesday to Friday 9.15-12.45 and 14.00-17.30, Saturday 10-12.30pm.",
        "The 06:20 stops at both villages and arrives at 07:05. There is no service on Sundays and on 26 December.",
        "Pumps to EN 809 and ISO 14414:2019 are tested in line with IEC 60335-2-41 and Directive 2006/42/EC.",
        "1. d4 d5 2. c4 dxc4 3. e3 b5 4. a4 c6 5. axb5 cxb5 6. Qf3 and the rook on a8 falls. 1-0",
        "A draw: 2-2 at half time, shots 14-9, corners 6-11, attendance 8,417.",
        "In the end it was 6-3, 4-6, 7-5 with only three double faults.",
        "Small flat bread £3.40, olives £2.75, refills 60p. Closed on Mondays.",
        "Bag: 3 towels, 8 AAA batteries, 2 XL shirts, 1 pan (450 g), rope 9 mm x 25 m.",
        "1. Boil 2 litres of stock. 2. Add 300 g flour. 3. Stir for 18 min.",
        "SELECT shop, SUM(total) FROM sales WHERE sold_at >= '2019-04-01' GROUP BY shop ORDER BY 2 DESC LIMIT 20;",
        "git switch bugfix/token-refresh && git push origin bugfix/token-refresh",
        "Start the server on 127.0.0.1:9000 and open http://localhost:9000/docs in a browser.",
        "Set YOUR_ACCESS_TOKEN and point the client at https://api.example.org/v2 or ${BASE_URL}.",
        "host: 0.0.0.0\nport: 9443\nurl: https://www.example.net/status",
        "The iPad Mini 6 is lighter, and the Pixel 7 Pro is cheaper.",
        "With 12 kills by min 20 that game was over.",
    ],
)
def test_careful_leaves_what_is_read_as_a_whole(text: str) -> None:
    assert _masked(text, "careful") == []


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Born 4.07.52, on firmware 4.07.52 since May.", "4.07.52"),
        ("The code is 4 m 7 s.", "4 m 7 s"),
        ("The lock opens with 14-31, 52-18, 60-11.", "52-18"),
        ("The yacht sank at 38.114 N 9.206 W in the storm.", "9.206"),
        ("She came on Friday with Dr Okonkwo, 9.30-10.00.", "Friday"),
        ("We meet the seller at 11:45 at the hotel with Oluchi.", "Oluchi"),
        ("Her passport no EN 40817 has expired.", "40817"),
        ("SELECT id FROM patients WHERE birth_date >= '1971-04-02'", "1971-04-02"),
        ("UPDATE staff SET hired = '2011-04-02' WHERE name = 'Oluchi Nnadi'", "Oluchi"),
        ('<td class="a">"1971-04-02"</td>', "1971-04-02"),
        ("The intruder came from 192.168.7.31 and not from 127.0.0.1.", "192.168.7.31"),
        ("http://localhost:8080/callback?token=f8Kq29Lm", "f8Kq29Lm"),
        ("https://example.com/users/tvandenberg7", "tvandenberg7"),
        ("postgres://oluchi:Quill7@localhost:5432/shop", "Quill7"),
        ("write to anna.keller@example.com", "anna.keller"),
        ("password: your-dog-Rex-77", "Rex"),
        ("My rent is £640 and I am late.", "640"),
        ("The flat is at 12-15 Market Street, goals and all.", "12-15"),
        ("Ask Min 5 times and she still forgets.", "Min"),
        ("My e-mail is jo point bloggs at example point com", "bloggs"),
    ],
)
def test_careful_masks_what_only_looks_like_a_whole(text: str, secret: str) -> None:
    assert any(secret in find or find in secret for find in _masked(text, "careful"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("git push origin feature/search-form", True),
        ("git push origin feature/oluchi-form", False),
        ("push feature/search-form", False),
        ("https://example.com/orders?page=2", True),
        ("https://example.com/orders?token=horse", False),
        ("https://oluchi.example.com/", False),
        ("https://shop.example.community/", False),
    ],
)
def test_branches_and_addresses_of_plain_words_are_documented(text: str, expected: bool) -> None:
    assert bool(wholes_of(text).documented) is expected


@pytest.mark.parametrize(
    ("text", "find", "expected"),
    [
        ("a 5 mm pin", "5 mm", True),
        ("a 5 mm pin", "pin", False),
        ("after 5 mm of rain", "after 5 mm of", True),
        ("after 5 mm of Rain", "5 mm of Rain", False),
        ("at 5 mm Hill", "5 mm Hill", False),
        ("code 5 mm", "5 mm", False),
        ("near 5 mm street", "5 mm street", False),
        ("tested to EN 40817", "EN 40817", True),
        ("tested, passport no EN 40817", "EN 40817", False),
        ("a load of 9.2 W and a 4 m cable", "9.2 W", True),
        ("at 38.1 N 9.2 W and 4 m deep", "9.2 W", False),
    ],
)
def test_a_whole_covers_its_parts_and_plain_words(text: str, find: str, expected: bool) -> None:
    start = text.index(find)
    assert is_covered(text, start, start + len(find), wholes_of(text).things) is expected


@pytest.mark.parametrize(
    ("text", "find", "label", "expected"),
    [
        ("the treatment goes to Cardiology in the second week", "Cardiology", "ORG", True),
        ("her treatment goes to Cardiology in the second week", "Cardiology", "ORG", False),
        ("there were 80 and the road to the mill crosses here", "80", "CARDINAL", True),
        ("past Grochowa 80 and the road to the mill crosses here", "80", "CARDINAL", False),
        ("the plan of the Finance Committee was late again", "Finance Committee", "ORG", True),
        ("the plan of the Finance Bank was late again", "Finance Bank", "ORG", False),
    ],
)
def test_a_find_is_left_out_only_in_rows_of_nobody_and_not_beside_a_name(
    text: str, find: str, label: str, expected: bool
) -> None:
    start = text.index(find)
    before, after = text[:start], text[start + len(find) :]
    assert is_of_nobody(find, label, before, after, row_of(text)) is expected


@pytest.mark.parametrize(
    "line",
    [
        "f(x", "a);", "a {", "a == b", "a <= b", "a => b", "a -> b", "a::b", "a && b", "a || b", "a = b", "a='b'", "a;",
        "the <b>", "run --quiet now", "$ ls", "a.b(", "ERR! no", "a_b: c", "valueError", "anException", "def a",
        "import a", "SELECT a", "FROM a", "CREATE a", "TABLE a", "INSERT a", "PRIMARY a", "return a", "docker a",
        "git a", "npm a", "pip a", "sudo a", "kubectl a", "Traceback a", "File a", "a, line 5", "at a.b:5", "const a",
        "public a", "static a", "void a",
    ],
)  # fmt: skip
def test_two_marks_of_code_make_code(line: str) -> None:
    assert row_of(f"{line}\n{line}").is_code
    assert not row_of("the sign stands on the left side of a road").is_code


@given(
    st.lists(
        st.sampled_from(("I", "me", "you’ll", "KID", "ſon", "ıt", "tripK", "İ", "i_", "x", "1me", "it's", " ", "-"))
    )
)
def test_a_set_of_words_answers_what_a_pattern_would(pieces: list[str]) -> None:
    text = "".join(pieces)
    for words in (*word_lists("rows").values(), word_lists("known")["life"]):
        pattern = rf"(?<!\w)(?:{'|'.join(sorted(words))})(?!\w)"
        assert words.isdisjoint(runs_of(text)) is (re.search(pattern, text, re.I) is None)


@pytest.mark.slow
def test_small_letters_are_those_that_patterns_take_for_equal() -> None:
    letters = re.compile("[a-z]", re.I)
    for character in map(chr, range(0x110000)):
        small = runs_of(character) & frozenset("abcdefghijklmnopqrstuvwxyz")
        assert bool(small) is (letters.fullmatch(character) is not None), hex(ord(character))


@pytest.mark.parametrize(
    ("text", "find", "expected"),
    [
        ("He wrote of the civil war, in May.", "civil war", True),
        ("He wrote of the CIVIL WAR, in May.", "WAR", True),
        ("He wrote of the civil war, in May.", "war, in", False),
        ("He wrote of the civil war, in May.", "wrote", False),
        ("He wrote of the war, and was civil.", "war", False),
    ],
)
def test_names_of_several_words_are_found(text: str, find: str, expected: bool) -> None:
    start = text.index(find)
    assert is_title(text, start, start + len(find)) is expected


def test_the_default_stays_out_of_keys() -> None:
    assert "dates_and_numbers" not in RedactConfig().keyed()
    assert RedactConfig(dates_and_numbers="identifying").keyed()["dates_and_numbers"] == "identifying"
    assert "dates_and_numbers" not in RedactConfig().keyed("estimate")


@given(st.text(), st.sampled_from(("PERSON", "DATE", "URL", "ADDRESS", "PHONE_NUMBER")), st.text(), st.text())
def test_careful_leaves_out_no_more_than_identifying(find: str, label: str, before: str, after: str) -> None:
    assert is_ordinary(find, label, before, after, "careful") <= is_ordinary(find, label, before, after, "identifying")


@pytest.mark.parametrize(
    "kind",
    [
        "Star Wars ",
        "Netflix, ",
        "in 1912 ",
        "3 x 2 cm ",
        "a 456 x 7 ",
        "Foo::bar",
        "1,000 ",
        "the Board of Directors ",
        "<a",
        "a.a(",
        "--a ",
        "Foo Bar, ",
        "12 May ",
        "(Aaaa aaaa) ",
        "ERROR 2024-01-01T10:10:10 ",
        "a_a",
        "`a.b` ",
        "Na 138, ",
        "'a ",
        "5 mm x ",
        "1.2.34 ",
        "EN 123 ISO ",
        "1. e4 ",
        "2-1, ",
        "10:30-",
        "$1.00 ",
        "two to three ",
        "http://localhost/a",
        "SELECT a ",
        "git fix/a-",
        "a >= '2020-01-01' ",
        "${a",
        "your_key_",
        "3. ",
        "<change",
        "YY-MM-",
        "size,cost,rate\n1,2,",
        "part 1-1-",
        "[i] i ",
        "license: 'A",
        "The a-b test ",
    ],
)
def test_leaving_out_takes_linear_time(kind: str) -> None:
    def seconds(length: int) -> float:
        text = (kind * (length // len(kind) + 1))[:length]
        words = list(re.finditer(r"\S+", text))
        sentence = Sentence(text, [word.start() for word in words], [word.end() for word in words])
        spans = [Span(i, i + 1, "ORG" if i % 2 else "DATE", "high_entity") for i in range(len(words))]
        began = time.process_time()
        without_ordinary(spans, sentence, "careful", by_model=True)
        return time.process_time() - began

    assert seconds(40_000) < 30 * max(seconds(4_000), 0.02)  # linear: 10, square: 100
