"""A real example of each format of chat logs, subtitles and transcripts. All contents are made up."""

from __future__ import annotations

from format_example import Example

WHATSAPP_IOS = """\
\u200e[12.03.24, 10:15:32] Rowing club: \u200eMessages and calls are end-to-end encrypted. No one can read them.
[12.03.24, 10:15:40] Ann Kowalski 🚣: Is anybody at the boathouse?
I have the key.
[12.03.24, 10:16:02] ~\u202fBob: On my way @\u2068Ann Kowalski 🚣\u2069
\u200e[12.03.24, 10:16:30] ~\u202fBob: \u200eimage omitted
[14.03.24, 18:00:05] +44 7700 900123: Thank you both! \u200e<This message was edited>
[14.03.24, 18:00:09] Ann Kowalski 🚣: \u200eThis message was deleted.
"""
WHATSAPP_ANDROID = """\
3/12/24, 10:15\u202fPM - Messages and calls are end-to-end encrypted. No one outside of this chat can read them.
3/12/24, 10:15\u202fPM - Ann created group "Trip: Rome"
3/13/24, 9:02\u202fAM - Ann: Who books the train?
3/13/24, 9:03\u202fAM - Bob: <Media omitted>
3/13/24, 9:04\u202fAM - Bob: IMG-20240313-WA0001.jpg (file attached)
Two tickets: done.
"""
IRC_IRSSI = """\
--- Log opened Wed Jan 03 10:15:02 2024
10:15 -!- arlie [~arlie@example.org] has joined #boats
10:15 <@arlie> does the pump work again?
10:16 < mo> arlie: yes, since noon
10:16  * mo waves
10:17 -!- mo is now known as mo_away
10:18 < mo_away> bye
--- Day changed Thu Jan 04 2024
09:00 <@arlie> good morning
"""
IRC_WEECHAT = """\
2024-01-03 10:15:02\t-->\tarlie (~arlie@example.org) has joined #boats
2024-01-03 10:15:32\t@arlie\tdoes the pump work again?
2024-01-03 10:16:00\tmo\tarlie: yes, since noon
2024-01-03 10:16:10\t *\tmo waves
2024-01-03 10:17:00\t<--\tmo (~mo@example.org) has quit (Quit: bye)
"""
VTT_ZOOM = """\
WEBVTT

1
00:00:01.000 --> 00:00:03.000
Ann Kowalski: Good morning, how can

2
00:00:03.000 --> 00:00:05.000
Ann Kowalski: I help you?

3
00:00:06.000 --> 00:00:09.000
Bob Osei: My parcel is lost &amp; I need it.
"""
VTT_TEAMS = """\
WEBVTT

9f1c2d3e-0a1b-4c5d-8e9f-001122334455/12-0
00:00:01.000 --> 00:00:03.000
<v Ann Kowalski>Good morning, how can
I help you?</v>

9f1c2d3e-0a1b-4c5d-8e9f-001122334455/13-0
00:00:06.000 --> 00:00:09.000
<v Bob Osei>My parcel is lost.</v>
"""
SRT = """\
1
00:00:01,000 --> 00:00:03,500
<i>The boat had been ready</i>

2
00:00:03,600 --> 00:00:06,000
since noon. Nobody came.

3
00:00:07,000 --> 00:00:09,000
[wind]

4
00:00:09,500 --> 00:00:11,000
- Where is Bob?
- At the pump.
"""
OTTER = """\
Boathouse call

Ann Kowalski  0:01
Good morning, how can I help you?

Bob Osei  0:06
My parcel is lost.
I need it at 10:15.

Ann Kowalski  0:15
It is at the pump.

Bob Osei  1:02
Thanks.

Transcribed by https://otter.ai
"""
ZOOM_CHAT = """\
10:15:32 From Ann Kowalski to Everyone:
\tWelcome, all of you.
10:15:40 From Bob Osei to Ann Kowalski(Direct Message):
\tMay I leave early?
10:16:01 From Bob Osei to Everyone:
\tHello!
"""

EXAMPLES: dict[str, Example] = {
    "whatsapp": Example("_chat.txt", WHATSAPP_IOS.encode(), 2, 3, 3),
    "irc": Example("#boats.log", IRC_IRSSI.encode(), 2, 5, 2),
    "vtt": Example("call.vtt", VTT_ZOOM.encode(), 1, 2, 2),
    "srt": Example("film.srt", SRT.encode(), 1, 1, 0),
    "transcript": Example("call.txt", OTTER.encode(), 1, 4, 2),
}
"""One example of each format, by the format's name."""

MORE: tuple[tuple[str, Example], ...] = (
    ("whatsapp", Example("WhatsApp Chat with Trip.txt", WHATSAPP_ANDROID.encode(), 1, 2, 2)),
    ("irc", Example("irc.weechatlog", IRC_WEECHAT.encode(), 1, 3, 2)),
    ("vtt", Example("teams.vtt", VTT_TEAMS.encode(), 1, 2, 2)),
    ("transcript", Example("meeting_saved_chat.txt", ZOOM_CHAT.encode(), 2, 3, 2)),
)
"""Other layouts of these formats."""


def example(format: str) -> bytes:
    """Returns the file of a format's example."""
    return EXAMPLES[format].data
