"""Chats of WhatsApp: layouts of several languages, system lines, media, names and times."""

from __future__ import annotations

import pytest
from chat_logs import left_out, read, rejected, turns
from format_examples_logs import WHATSAPP_ANDROID, WHATSAPP_IOS
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.dialogues import Dialogue

HEADERS = [
    "[12.03.24, 10:15:32] ", "\u200e[12.03.24, 10:15:32] ", "[12/03/24, 10:15:32\u202fPM] ", "[2024-03-12, 10:15:32] ",
    "[12/03/2024 10:15:32] ", "[12.3.2024 klo 10.15.32] ", "[12/03/2024, 10:15:32 p. m.] ", "12/03/2024 à 10:15 - ",
    "12.3.2024 klo 10.15 - ", "2024/3/12 上午10:15 - ", "2024. 3. 12. 오후 10:15 - ", "2024. 03. 12. 10:15 - ",
    "12/3/24 10:15 a. m. - ", "12/3/24, 10:15\u00a0a.\u00a0m. - ", "12-03-2024 10:15 - ", "2024-03-12 10:15 - ",
    "\u200f١٢\u200f/٣\u200f/٢٠٢٤، ١٠:١٥ ص - ", "12/03/2016, 10:15:32: ", "12/03/24, 22:15 Uhr - ",
    "12.03.24 um 10:15 - ",
    "12/03/24, 10:15 pm – ", "12/03/2024 10.15 - ", "12.03.2024, 10:15 π.μ. - ", "12/03/24, 10:15 ös - ",
]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS)
def test_the_layout_of_a_language_gives_speakers_and_text(header):
    chat = f"{header}Ann: hi\nthere\n{header}+49 151 234: ho 🙂\n"
    assert turns("whatsapp", chat) == [[("Ann", "hi\nthere"), ("+49 151 234", "ho 🙂")]]
    assert turns("whatsapp", b"\xef\xbb\xbf" + chat.replace("\n", "\r\n").encode()) == turns("whatsapp", chat)


def test_an_ios_chat():
    assert turns("whatsapp", WHATSAPP_IOS) == [
        [("Ann Kowalski 🚣", "Is anybody at the boathouse?\nI have the key."), ("Bob", "On my way @Ann Kowalski 🚣")],
        [("+44 7700 900123", "Thank you both!")],
    ]
    assert left_out("whatsapp", WHATSAPP_IOS) == {"system": 1, "media": 1, "deleted": 1}


def test_an_android_chat():
    assert turns("whatsapp", WHATSAPP_ANDROID) == [[("Ann", "Who books the train?"), ("Bob", "Two tickets: done.")]]
    assert left_out("whatsapp", WHATSAPP_ANDROID) == {"system": 2, "media": 1}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<Media omitted>", "media"), ("<Medien ausgeschlossen>", "media"), ("<Multimedia omitido>", "media"),
        ("<Médias omis>", "media"), ("<Без медиафайлов>", "media"), ("<メディアなし>", "media"),
        ("image omitted", "media"),
        ("Bild weggelassen", "media"), ("imagen omitida", "media"),
        ("afbeelding weggelaten", "media"), ("null", "media"),
        ("<attached: 00000012-PHOTO-2024-03-12.jpg>", "media"), ("<Anhang: 00000012-PHOTO.jpg>", "media"),
        ("IMG-20240312-WA0001.jpg (Datei angehängt)", "media"),
        ("plan.pdf • \u200e3 pages \u200edocument omitted", "media"),
        ("This message was deleted", "deleted"), ("Du hast diese Nachricht gelöscht.", "deleted"),
        ("Eliminaste este mensaje.", "deleted"), ("此訊息已刪除", "deleted"), ("\u200eBob added Carol", "system"),
        ("\u200eMissed voice call", "system"),
    ],
)  # fmt: skip
def test_parts_that_are_no_text_are_counted(text, kind):
    chat = f"[12.03.24, 10:15:32] Ann: {text}\n[12.03.24, 10:15:40] Bob: real text\n"
    assert turns("whatsapp", chat) == [[("Bob", "real text")]]
    assert left_out("whatsapp", chat) == {kind: 1}


@pytest.mark.parametrize("text", ["<div>", "<3", "use <b> or <i class=x>", "I omitted the image", "a (file) b", "x: y"])
def test_text_that_looks_like_a_part_of_another_kind_stays(text):
    assert turns("whatsapp", f"3/12/24, 10:15 - Ann: {text}\n") == [[("Ann", text)]]


@pytest.mark.parametrize(
    "line", ['Ann changed the subject to "Trip: Rome"', "Ann joined using this group's invite link", "Ann added Bob"]
)
def test_lines_without_a_name_are_system_lines(line):
    chat = f"3/12/24, 10:15 - {line}\n3/12/24, 10:16 - Bob: hi\n"
    assert turns("whatsapp", chat) == [[("Bob", "hi")]]
    assert left_out("whatsapp", chat) == {"system": 1}


def test_a_name_with_a_colon_is_found_if_all_its_messages_have_it():
    chat = "".join(f"3/12/24, 10:1{n} - Dr: House: text {n}\n3/12/24, 10:1{n} - Bob: no: {n}x\n" for n in range(4))
    assert {speaker for speaker, _ in turns("whatsapp", chat)[0]} == {"Dr: House", "Bob: no"}
    assert turns("whatsapp", chat + "3/12/24, 10:15 - Bob: yes\n")[0][-1] == ("Bob", "yes")


@pytest.mark.parametrize(
    ("dates", "num_dialogues"),
    [
        (("01/02/24", "02/02/24", "13/02/24"), 3),  # days above 12: the first number is the day
        (("1/31/24", "2/1/24"), 2),  # the second number is the day
        (("31/1/24", "1/2/24"), 2),
        (("2024-01-31", "2024-02-01"), 2),
    ],
)
def test_the_head_decides_the_order_of_day_and_month(dates, num_dialogues):
    chat = "".join(f"{date}, 10:15 - Ann: hi\n" for date in dates)
    assert len(turns("whatsapp", chat)) == num_dialogues
    assert len(turns("whatsapp", chat, dialogue_gap_minutes=20 * 1440)) == 1


def test_twelve_hours_and_a_gap():
    chat = "3/12/24, 11:50\u202fAM - Ann: a\n3/12/24, 12:10\u202fPM - Bob: b\n3/12/24, 1:05\u202fPM - Ann: c\n"
    assert len(turns("whatsapp", chat)) == 1
    assert len(turns("whatsapp", chat + "3/12/24, 11:50\u202fPM - Ann: d\n")) == 2


def test_dates_that_do_not_exist_end_no_dialogue():
    assert len(turns("whatsapp", "99/99/24, 10:15 - Ann: a\n99/99/24, 10:16 - Bob: b\n")) == 1


def test_a_pasted_chat_of_another_layout_is_text():
    chat = "3/12/24, 10:15 - Ann: see\n[12.03.24, 10:15:32] Bob: pasted\n3/12/24, 10:16 - Ann: done\n"
    assert turns("whatsapp", chat) == [[("Ann", "see\n[12.03.24, 10:15:32] Bob: pasted"), ("Ann", "done")]]


@pytest.mark.parametrize(
    ("bad", "reason"), [(b"x\xff", "undecodable"), (b"ok\n\xff second", "undecodable"), (b"a\0b", "nul"),
                        (b"y" * 9_000, "over_long"), (b"y\n" * 3_000, "over_long")],
)  # fmt: skip
def test_a_bad_message_is_rejected_and_its_neighbours_stay(bad, reason):
    chat = b"3/12/24, 10:15 - Ann: one\n3/12/24, 10:15 - Bob: " + bad + b"\n3/12/24, 10:15 - Ann: two\n"
    assert turns("whatsapp", chat, max_document_chars=2_000) == [[("Ann", "one"), ("Ann", "two")]]
    assert rejected("whatsapp", chat, max_document_chars=2_000) == [(2, reason)]


NAMES = st.sampled_from(["Ann", "Bob B.", "+49 151 1", "Zoë 🌊", "李雷"])
CHARACTERS = st.characters(
    codec="utf-8", exclude_characters="\r\n\0:<>()[]", exclude_categories=["Cc", "Cf", "Zl", "Zp"]
)
TEXT = st.text(CHARACTERS, min_size=1, max_size=40)


@given(st.lists(st.tuples(NAMES, st.lists(TEXT, min_size=1, max_size=3)), min_size=1, max_size=9))
def test_every_message_is_kept_with_its_speaker(messages):
    chat = "".join(f"12.03.24, 10:15 - {name}: {'; '.join(lines)} end\n" for name, lines in messages)
    found = [turn for dialogue in turns("whatsapp", chat) for turn in dialogue]
    assert [(name, " ".join(text.split())) for name, text in found] == [
        (name, " ".join(f"{'; '.join(lines)} end".split())) for name, lines in messages
    ]


@given(st.integers(0, len(WHATSAPP_IOS.encode())))
def test_a_truncated_chat_keeps_what_is_whole(at):
    data = WHATSAPP_IOS.encode()
    found = [item for _, item in read("whatsapp", data[:at])]
    kept = [text for item in found if isinstance(item, Dialogue) for _, text in item.turns]
    assert all(isinstance(item, Dialogue) for item in found)
    if at >= data.index(b"[12.03.24, 10:16:02]"):
        assert kept[0].startswith("Is anybody at the boathouse?\nI have the key.")
