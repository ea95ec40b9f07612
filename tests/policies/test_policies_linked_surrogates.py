"""Surrogates of names word by word, and shifted dates: one person stays one person, and everything comes back."""

import datetime
import json
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flows.commands.redact import redact_lines, redactor_spec
from flows.commands.restore import replacing, restored_lines
from pipelines.errors import ConfigError
from pipelines.mask import MASK
from pipelines.policies.linked_surrogates import LinkedSurrogates
from pipelines.policies.protocol import Span
from pipelines.policies.surrogate_dates import shifted
from pipelines.policies.surrogate_names import kind_of, names, parts_of
from pipelines.policies.surrogates import restored
from pipelines.settings.estimate import EstimateConfig
from pipelines.settings.redact import RedactConfig

KEY = b"k" * 32
LABELS = EstimateConfig().review_labels(())
WORDS = [
    "Anne",
    "Keller",
    "KELLER",
    "anne",
    "Mrs",
    "Dr.",
    "Müller-Ötz",
    "O'Neil",
    "van",
    "der",
    "Berg",
    "J.",
    "Иван",
    "李",
]


def marked(text, **how):
    """The text with surrogates for what is in brackets, its table, and the text without brackets."""
    plain, spans = "", []
    for number, piece in enumerate(re.split(r"\[([^\]]*)\]", text)):
        label, _, found = piece.partition(":") if number % 2 else ("", "", piece)
        if number % 2:
            spans.append((len(plain), len(plain) + len(found), label))
        plain += found
    tokens = [m.span() for m in re.finditer(r"\w+|[^\w\s]", plain)]
    starts, ends = [a for a, _ in tokens], [b for _, b in tokens]
    covered = [
        Span(
            next(i for i, b in enumerate(ends) if b > a),
            max(i for i, s in enumerate(starts) if s < b) + 1,
            label,
            "p",
        )
        for a, b, label in spans
        if any(a <= s < b for s in starts)
    ]
    written, table = LinkedSurrogates(KEY, LABELS, **how).text("d", plain, starts, ends, covered)
    return written, table, plain


def person(*mentions, **how):
    return [marked(f"[PERSON:{mention}]", **how)[0] for mention in mentions]


@pytest.mark.parametrize("persons", ["neutral", "gendered"])
def test_all_mentions_of_a_person_name_one_person(persons):
    full, loud, given_name, title, family = person(
        "Anne Keller", "ANNE KELLER", "anne", "Mrs Keller", "Keller", persons=persons
    )
    first, last = full.split()
    assert (loud, given_name, title, family) == (full.upper(), first.lower(), f"Mrs {last}", last)
    assert person("Keller, Anne", "Anne-Keller", "Anne Keller's", persons=persons) == [
        f"{last}, {first}",
        f"{first}-{last}",
        f"{full}'s",
    ]
    text, table, plain = marked(
        "[PERSON:Anne Keller] met [PERSON:Mrs KELLER], and [PERSON:anne] left.", persons=persons
    )
    assert text == f"{full} met Mrs {last.upper()}, and {first.lower()} left."
    assert restored(text, table, any_case=True) == plain


def test_gender_is_that_of_a_listed_first_name_or_neutral():
    assert [kind_of(word, gendered=True) for word in ("anne", "peter", "kim", "keller", "frobnix")] == [
        "female",
        "male",
        "neutral",
        "family",
        "family",
    ]
    assert kind_of("anne", gendered=False) == "neutral"
    (woman,) = person("Anne", persons="gendered")
    assert woman in names("female")
    (nobody,) = person("Anne")
    assert nobody in names("neutral")
    kinds = [frozenset(names(kind)) for kind in ("female", "male", "neutral", "family")]
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))
    assert min(map(len, kinds)) > 60


@settings(deadline=None, max_examples=200)
@given(
    mentions=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), min_size=1, max_size=4),
    glue=st.sampled_from([" went, ", " ", "\n", " -- "]),
    persons=st.sampled_from(["neutral", "gendered", "apart"]),
    label=st.sampled_from(["PERSON", "ORG", "GPE", "EMAIL_ADDRESS", "DATE", "PASSWORD"]),
)
def test_every_text_comes_back_in_any_case(mentions, glue, persons, label):
    text, table, plain = marked(glue.join(f"[{label}:{' '.join(words)}]" for words in mentions), persons=persons)
    if not table:
        assert MASK in text
        return
    assert restored(text, table, any_case=True) == plain
    for change in (str.upper, str.lower, str.title, str.swapcase):
        assert restored(change(text), table, any_case=True).casefold() == plain.casefold()


@settings(deadline=None, max_examples=200)
@given(mention=st.lists(st.sampled_from([*WORDS, "Riley", "Ashton", "Smith"]), min_size=1, max_size=4))
def test_no_word_of_a_secret_is_in_its_surrogate(mention):
    written, table, plain = marked(f"[PERSON:{' '.join(mention)}]")
    parts = parts_of(plain, gendered=False)
    if parts is not None:
        kept = re.findall(r"\w{2,}", written[len(plain[: parts[0].start]) :].casefold())
        assert not {*kept} & {*re.findall(r"\w{2,}", plain[parts[0].start :].casefold())}
    elif table:
        assert plain.casefold() not in written.casefold()


DATES = st.dates(datetime.date(1900, 1, 1), datetime.date(2090, 12, 31))
FORMATS = [
    "%Y-%m-%d",
    "%d %B %Y",
    "%B %d, %Y",
    "%d.%m.%Y",
    "%b %d, %Y",
    "%A, %B %d, %Y",
    "%Y/%m/%d",
    "%m/%d/%Y",
    "%d %b %Y",
]


@given(date=DATES, form=st.sampled_from(FORMATS), weeks=st.integers(-500, 500))
def test_dates_move_by_whole_weeks_and_keep_their_format(date, form, weeks):
    assume("%b" not in form or date.month != 5)  # May is short and long
    one, other = (day.strftime(form) for day in (date, date + datetime.timedelta(weeks=weeks)))
    if re.search("%[AbB]", form):  # beside the name of a month, days have no zero before them
        one, other = (re.sub(r"\b0", "", text) for text in (one, other))
    if int(re.search(r"\d{4}", other)[0]) >= 1000:
        assert shifted(one, weeks) == other


@pytest.mark.parametrize(
    ("date", "later"),
    [
        ("3 May 1985", "10 May 1985"),
        ("30th of May", "6th of June"),
        ("May 3rd, 1985", "May 10th, 1985"),
        ("3. Mai 1985", "10. Mai 1985"),
        ("28. MÄRZ 2020", "4. APRIL 2020"),
        ("28 de mayo de 1985", "4 de junio de 1985"),
        ("28 mars 2020", "4 avril 2020"),
        ("28 maggio", "4 giugno"),
        ("28 maart 2020", "4 april 2020"),
        ("28 de maio de 2020", "4 de junho de 2020"),
        ("05/28/85", "06/04/85"),
        ("28/05/1985", "04/06/1985"),
        ("28 dec 1999", "4 jan 2000"),
    ],
)
def test_dates_of_several_languages(date, later):
    assert shifted(date, 1) == later


@given(st.text(max_size=50), st.integers(-9999, 9999))
def test_any_text_is_a_date_or_none(text, weeks):
    found = shifted(text, weeks)
    assert found is None or re.search(r"\d", text)


@pytest.mark.parametrize(
    "text", ["yesterday", "5 pm", "3 months", "2020-02-30", "99/99/9999", "3/5", "", "may", "１２ May"]
)
def test_what_is_no_date_is_not_shifted(text):
    assert shifted(text, 1) is None


def test_dates_of_a_document_keep_their_distance():
    how = {"shift_dates": 365}
    text, table, plain = marked("from [DATE:2020-03-01] to [DATE:2020-03-11], [DATE:Sunday]", **how)
    one, other = (datetime.date.fromisoformat(found) for found in re.findall(r"\d{4}-\d\d-\d\d", text))
    assert (other - one).days == 10
    assert (one - datetime.date(2020, 3, 1)).days % 7 == 0
    assert 7 <= abs((one - datetime.date(2020, 3, 1)).days) <= 365
    assert restored(text, table, any_case=True) == plain
    assert restored(text.upper(), table, any_case=True).casefold() == plain.casefold()
    moves = set()
    for number in range(200):
        maker = LinkedSurrogates(KEY, LABELS, shift_dates=28)
        (found,) = maker.text(str(number), "2020-03-01", [0], [10], [Span(0, 1, "DATE", "p")])[1]
        moves.add((datetime.date.fromisoformat(found.surrogate) - datetime.date(2020, 3, 1)).days)
    assert moves == {-28, -21, -14, -7, 7, 14, 21, 28}


def test_the_command_links_mentions_and_restore_accepts_another_case(tmp_path):
    lines = "Mrs Keller called.\n", "I am Anne Keller. ANNE KELLER! Yes, Mrs Keller.\n"
    (tmp_path / "in.txt").write_text("".join(lines))
    spec = redactor_spec(["names"], {"names_file": str(tmp_path / "names")})
    (tmp_path / "names").write_text("Anne Keller\nMrs Keller\nAnne\nKeller\n")
    files = (tmp_path / "key", tmp_path / "map")
    with replacing("surrogate", spec, *files, "document", "neutral") as replace:
        rows = [json.loads(line) for line in redact_lines(str(tmp_path / "in.txt"), spec, replace=replace)]
    found = re.fullmatch(r"I am (\w+) (\w+)\. (\w+) (\w+)! Yes, Mrs (\w+)\.", rows[1]["redacted_text"])
    assert found is not None
    assert (found[3], found[4], found[5]) == (found[1].upper(), found[2].upper(), found[2])
    answers = [{"id": "2", "text": f"dear {found[1].lower()}, or {found[2].upper()}?"}, {**rows[0]}]
    (tmp_path / "answers").write_text("".join(json.dumps(row) + "\n" for row in answers))
    back = [json.loads(line)["text"] for line in restored_lines(str(tmp_path / "answers"), files[1])]
    assert back == ["dear anne, or KELLER?", "Mrs Keller called."]
    other = replacing("surrogate", spec, files[0], tmp_path / "other", "document", "neutral", 3)
    with pytest.raises(ConfigError, match="at least a week"), other:
        pass


def test_settings_of_persons_and_dates():
    assert RedactConfig(replacement="surrogate").linking() is None
    assert RedactConfig(replacement="surrogate", shift_dates=30).linking()["persons"] == "apart"
    assert not {"surrogate_persons", "shift_dates", "day_first"} & RedactConfig().keyed().keys()
    for wrong in ({"surrogate_persons": "neutral"}, {"shift_dates": 30}, {"day_first": True}):
        with pytest.raises(ValueError, match="needs replacement = surrogate"):
            RedactConfig(**wrong)
