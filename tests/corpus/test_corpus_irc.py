"""Logs of IRC: the layouts of the programs, actions, system lines, nicks and days."""

from __future__ import annotations

import pytest
from chat_logs import left_out, read, rejected, turns
from format_examples_logs import IRC_IRSSI, IRC_WEECHAT
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.dialogues import Dialogue

CHAT = [[("arlie", "hi"), ("mo", "waves"), ("mo", "so <b>")]]


def test_an_irssi_log():
    assert turns("irc", IRC_IRSSI) == [
        [
            ("arlie", "does the pump work again?"),
            ("mo, mo_away", "arlie: yes, since noon"),
            ("mo, mo_away", "waves"),
            ("mo, mo_away", "bye"),
        ],
        [("arlie", "good morning")],
    ]
    assert left_out("irc", IRC_IRSSI) == {"system": 4}


def test_a_weechat_log():
    assert turns("irc", IRC_WEECHAT) == [
        [("arlie", "does the pump work again?"), ("mo", "arlie: yes, since noon"), ("mo", "waves")]
    ]
    assert left_out("irc", IRC_WEECHAT) == {"system": 2}


@pytest.mark.parametrize(
    ("log", "num_system"),
    [
        ("[10:15:32] *** Joins: arlie (a@b)\n[10:15:33] <arlie> hi\n[10:15:33] * mo waves\n[10:16:00] <mo> so <b>\n"
         "[10:16:01] *** Quits: mo (a@b) (bye)\n[10:16:02] -NickServ- identify\n", 3),
        ("**** BEGIN LOGGING AT Wed Jan  3 10:15:32 2024\n\nJan 03 10:15:32 *\tNow talking on #x\n"
         "Jan 03 10:15:33 <arlie>\thi\nJan 03 10:15:33 *\tmo (a@b) has joined\nJan 03 10:15:34 *\tmo waves\n"
         "Jan 03 10:15:35 *\tarlie gives channel operator status to mo\nJan 03 10:15:36 <mo>\tso <b>\n", 4),
        ("=== arlie [a@b] has joined #ubuntu\n[10:15] <arlie> hi\n[10:15]  * mo waves\n[10:16] <mo> so <b>\n", 1),
        ("Session Start: Wed Jan 03 10:15:32 2024\n[10:15] * mo (a@b) has joined #x\n[10:15] <@arlie> hi\n"
         "[10:15] * mo waves\n[10:16] <+mo> so <b>\n[10:17] * mo sets mode: +o x\n", 2),
        ("2024-01-03T10:15:32Z <arlie> hi\n2024-01-03T10:15:33Z * mo waves\n2024-01-03T10:15:34Z <mo> so <b>\n", 0),
        ("10:15 <arlie> hi\n10:15 * mo waves\n10:15 <mo> so <b>\n10:15 -!- mode/#x [+o mo] by arlie\n", 1),
        ("<arlie> hi\n* mo waves\n<mo> so <b>\n", 0),
        ("10:15 <\x0304arlie\x0f> \x02hi\x02\n10:15 * mo waves\n10:15 <mo> so <b>\n", 0),
    ],
)  # fmt: skip
def test_the_layouts_of_other_programs(log, num_system):
    assert turns("irc", log) == CHAT
    assert turns("irc", log.replace("\n", "\r\n")) == CHAT
    assert left_out("irc", log).get("system", 0) == num_system


@pytest.mark.parametrize("text", ["gives mo a cookie", "joined a band", "has a dog", "quit smoking", "has left him"])
def test_an_action_is_not_taken_for_an_event(text):
    assert turns("irc", f"10:15 * arlie {text}\n") == [[("arlie", text)]]


def test_a_change_of_nick_keeps_the_speaker_whose_name_holds_all_nicks():
    log = "10:15 <a> 1\n10:15 -!- a is now known as b\n10:15 <b> 2\n10:15 -!- b is now known as c\n10:15 <c> 3\n"
    assert turns("irc", log) == [[("a, b, c", "1"), ("a, b, c", "2"), ("a, b, c", "3")]]
    back = "10:15 -!- c is now known as a\n10:15 -!- d is now known as c\n10:16 <a> 4\n10:16 <c> 5\n"
    assert turns("irc", log + back)[0][3:] == [("a, b, c", "4"), ("d, c", "5")]


def test_changes_of_nick_without_end_take_bounded_memory():
    log = "".join(f"10:15 -!- n{n} is now known as n{n + 1}\n10:15 <n{n + 1}> x\n" for n in range(30_000))
    found = turns("irc", log)
    assert sum(map(len, found)) == 30_000
    assert max(len(name or "") for dialogue in found for name, _ in dialogue) < 200


def test_a_relayed_message_has_the_speaker_of_the_other_chat():
    log = "10:15 <bridge_> [boats] <mo> hi\n10:15 <bridge_> [boats] mo left\n10:16 <arlie> <mo> is not me\n"
    assert turns("irc", log) == [[("mo", "hi"), ("bridge_", "[boats] mo left"), ("arlie", "<mo> is not me")]]
    log = "".join(f"10:15 <tg42> <mo> {n}\n" for n in range(5))
    assert turns("irc", log)[0][2:] == [("mo", "2"), ("mo", "3"), ("mo", "4")]


def test_midnight_starts_a_day_and_a_corrected_clock_does_not():
    assert len(turns("irc", "23:50 <a> 1\n00:10 <b> 2\n")) == 1
    assert len(turns("irc", "22:50 <a> 1\n00:10 <b> 2\n")) == 2
    assert len(turns("irc", "22:50 <a> 1\n22:40 <b> 2\n22:55 <a> 3\n")) == 1
    assert len(turns("irc", "Dec 31 23:50:00 <a> 1\nJan 01 00:10:00 <b> 2\n")) == 1
    assert len(turns("irc", "10:15 <a> 1\n--- Day changed Thu Jan 04 2024\n10:16 <a> 2\n")) == 2


def test_lines_that_fit_nothing_are_counted():
    assert left_out("irc", "half of a line\n10:15 <a> 1\n") == {"other": 1}


def test_a_bad_line_is_rejected_and_its_neighbours_stay():
    log = b"10:15 <a> one\n10:15 <b> x\xff\n10:15 <b> y\0\n10:15 <b> " + b"z" * 9_000 + b"\n10:15 <a> two"
    assert turns("irc", log, max_document_chars=2_000) == [[("a", "one"), ("a", "two")]]
    expected = [(2, "undecodable"), (3, "nul"), (4, "over_long")]
    assert rejected("irc", log, max_document_chars=2_000) == expected


NICKS = st.text("abcdefgh_^|`[]0", min_size=1, max_size=9).filter(lambda nick: not nick.startswith("0"))


@given(st.lists(st.tuples(NICKS, st.text("abc <>*:!-", min_size=1, max_size=30)), min_size=1, max_size=20))
def test_every_message_is_kept_with_its_nick(messages):
    log = "".join(f"[10:15:32] <{nick}> x{text}\n" for nick, text in messages)
    assert [turn for dialogue in turns("irc", log) for turn in dialogue] == [(n, f"x{t}") for n, t in messages]


@given(st.integers(0, len(IRC_IRSSI)))
def test_a_truncated_log_keeps_what_is_whole(at):
    found = [item for _, item in read("irc", IRC_IRSSI.encode()[:at])]
    kept = [text for item in found if isinstance(item, Dialogue) for _, text in item.turns]
    whole = [line for line in IRC_IRSSI[:at].split("\n")[:-1] if "<" in line or " * " in line]
    assert len(kept) >= len(whole)
