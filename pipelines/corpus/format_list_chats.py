"""The formats of chats, tickets and call transcripts."""

from __future__ import annotations

from typing import Final

from pipelines.corpus.format_spec import FormatSpec

FORMATS_OF_CHATS: Final[tuple[FormatSpec, ...]] = (
    FormatSpec(
        name="whatsapp",
        document="messages of an exported chat up to a gap in time",
        example="`[12.03.24, 10:15:32] Ann: Hello.` or `3/12/24, 10:15 PM - Ann: Hello.`",
        kinds={".txt": "whole"},
        names_fold=False,
        has_gold=False,
        settings=("dialogue_gap_minutes",),
        reader="pipelines.corpus.whatsapp:WhatsApp",
    ),
    FormatSpec(
        name="irc",
        document="messages of a channel's log up to a gap in time",
        example="`10:15 <ann> Hello.` or `2024-01-03 10:15:32⇥ann⇥Hello.`",
        kinds={".log": "whole", ".weechatlog": "whole", ".txt": "whole"},
        names_fold=False,
        has_gold=False,
        settings=("dialogue_gap_minutes",),
        reader="pipelines.corpus.irc:Irc",
    ),
    FormatSpec(
        name="vtt",
        document="turns of a call, or the text of captions without speakers (WebVTT)",
        example="`00:01:02.000 --> 00:01:04.000` / `<v Ann>Hello.`",
        kinds={".vtt": "whole"},
        names_fold=False,
        has_gold=False,
        settings=("dialogue_gap_minutes",),
        reader="pipelines.corpus.subtitles:Subtitles",
    ),
    FormatSpec(
        name="srt",
        document="turns of a call, or the text of subtitles without speakers (SubRip)",
        example="`1` / `00:01:02,000 --> 00:01:04,000` / `Ann: Hello.`",
        kinds={".srt": "whole"},
        names_fold=False,
        has_gold=False,
        settings=("dialogue_gap_minutes",),
        reader="pipelines.corpus.subtitles:Subtitles",
    ),
    FormatSpec(
        name="transcript",
        document="turns of a call, or messages of a meeting's chat, with times",
        example="`[00:01:02] Ann: Hello.` or `Ann  1:02` / `Hello.`",
        kinds={".txt": "whole", ".md": "whole"},
        names_fold=False,
        has_gold=False,
        settings=("dialogue_gap_minutes",),
        reader="pipelines.corpus.transcript:Transcript",
    ),
)
