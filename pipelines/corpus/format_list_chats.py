"""The formats of dialogues in JSON, chat logs and call transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pipelines.corpus.format_spec import FormatSpec, RowKind

_ROWS: Final[Mapping[str, RowKind | Literal["json"]]] = {
    ".jsonl": "line", ".ndjson": "line", ".json": "json", ".parquet": "parquet", ".arrow": "arrow",
}  # fmt: skip
_READER: Final = "pipelines.corpus.turns:TurnsReader"
_TURNS: Final = ("turns_field", "speaker_field")

PROMPTS: Final = ("instruction", "prompt", "question", "query")
"""Fields of the format ``instructions`` with a prompt, the first of which counts."""
ADDITIONS: Final = ("input", "context")
ANSWERS: Final = ("output", "completion", "response", "answer", "chosen")
SYSTEMS: Final = ("system", "system_prompt")

FORMATS_OF_CHATS: Final[tuple[FormatSpec, ...]] = (
    # --- dialogues in JSON
    FormatSpec(
        name="messages",
        document="a dialogue: an object with a list of messages (OpenAI, Anthropic)",
        example='`{"messages": [{"role": "user", "content": "Hello."}]}`',
        kinds=_ROWS,
        has_gold=False,
        settings=_TURNS,
        reader=_READER,
        presets={"turns_field": "messages", "speaker_field": "role", "text_field": "content"},
    ),
    FormatSpec(
        name="sharegpt",
        document="a dialogue: an object with a list of conversations (ShareGPT)",
        example='`{"conversations": [{"from": "human", "value": "Hello."}]}`',
        kinds=_ROWS,
        has_gold=False,
        settings=_TURNS,
        reader=_READER,
        presets={"turns_field": "conversations", "speaker_field": "from", "text_field": "value"},
    ),
    FormatSpec(
        name="turns",
        document="a dialogue: an object with a list of turns of any names, or a text with the speakers' names in it",
        example='`{"turns": [{"speaker": "USER", "text": "Hello."}]}`',
        kinds=_ROWS,
        has_gold=False,
        settings=_TURNS,
        reader=_READER,
        presets={"turns_field": "turns"},
    ),
    FormatSpec(
        name="instructions",
        document="a prompt, with its input, and the answer (Alpaca, Dolly, prompt and completion)",
        example='`{"instruction": "Greet me.", "input": "", "output": "Hello."}`',
        kinds={".jsonl": "line", ".ndjson": "line", ".json": "element", ".parquet": "parquet", ".arrow": "arrow"},
        has_gold=False,
        presets={"other_columns": PROMPTS + ADDITIONS + ANSWERS + SYSTEMS + ("history",)},
    ),
    FormatSpec(
        name="chatgpt",
        document="a conversation of ChatGPT's data export: the branch that was last shown",
        example="`conversations.json` of the export",
        kinds={".json": "element", ".jsonl": "line"},
        names_fold=False,
        has_gold=False,
    ),
    FormatSpec(
        name="diarised",
        document="a call with its segments by speaker (WhisperX, Amazon, Google, Azure, Deepgram, AssemblyAI, Rev)",
        example='`{"segments": [{"start": 0.1, "end": 0.9, "text": "Hello.", "speaker": "SPEAKER_00"}]}`',
        kinds={".json": "json", ".jsonl": "line", ".ndjson": "line"},
        names_fold=False,
        has_gold=False,
        settings=("turns_field",),
        reader=_READER,
    ),
    # --- logs and transcripts
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
