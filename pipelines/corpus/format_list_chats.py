"""The formats of dialogues in JSON, chat logs and call transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, Literal

from pipelines.corpus.format_spec import FormatSpec, RowKind, unlabelled

_ROWS: Final[Mapping[str, RowKind | Literal["json"]]] = {
    ".jsonl": "line", ".ndjson": "line", ".json": "json", ".parquet": "parquet", ".arrow": "arrow",
}  # fmt: skip
_READER: Final = "pipelines.corpus.turns:TurnsReader"
_dialogue = partial(FormatSpec, kinds=_ROWS, has_gold=False, settings=("turns_field", "speaker_field"), reader=_READER)
_log = partial(unlabelled, settings=("dialogue_gap_minutes",))

PROMPTS: Final = ("instruction", "prompt", "question", "query")
"""Fields of the format ``instructions`` with a prompt, the first of which counts."""
ADDITIONS: Final = ("input", "context")
ANSWERS: Final = ("output", "completion", "response", "answer", "chosen")
SYSTEMS: Final = ("system", "system_prompt")

FORMATS_OF_CHATS: Final[tuple[FormatSpec, ...]] = (
    # --- dialogues in JSON
    _dialogue(
        name="messages",
        document="a dialogue: an object with a list of messages (OpenAI, Anthropic)",
        example='`{"messages": [{"role": "user", "content": "Hello."}]}`',
        presets={"turns_field": "messages", "speaker_field": "role", "text_field": "content"},
    ),
    _dialogue(
        name="sharegpt",
        document="a dialogue: an object with a list of conversations (ShareGPT)",
        example='`{"conversations": [{"from": "human", "value": "Hello."}]}`',
        presets={"turns_field": "conversations", "speaker_field": "from", "text_field": "value"},
    ),
    _dialogue(
        name="turns",
        document="a dialogue: an object with a list of turns of any names, or a text with the speakers' names in it",
        example='`{"turns": [{"speaker": "USER", "text": "Hello."}]}`',
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
    unlabelled(
        name="chatgpt",
        document="a conversation of ChatGPT's data export: the branch that was last shown",
        example="`conversations.json` of the export",
        kinds={".json": "element", ".jsonl": "line"},
    ),
    unlabelled(
        name="diarised",
        document="a call with its segments by speaker (WhisperX, Amazon, Google, Azure, Deepgram, AssemblyAI, Rev)",
        example='`{"segments": [{"start": 0.1, "end": 0.9, "text": "Hello.", "speaker": "SPEAKER_00"}]}`',
        kinds={".json": "json", ".jsonl": "line", ".ndjson": "line"},
        settings=("turns_field",),
        reader=_READER,
    ),
    # --- logs and transcripts
    _log(
        name="whatsapp",
        document="messages of an exported chat up to a gap in time",
        example="`[12.03.24, 10:15:32] Ann: Hello.` or `3/12/24, 10:15 PM - Ann: Hello.`",
        kinds={".txt": "whole"},
        reader="pipelines.corpus.whatsapp:WhatsApp",
    ),
    _log(
        name="irc",
        document="messages of a channel's log up to a gap in time",
        example="`10:15 <ann> Hello.` or `2024-01-03 10:15:32⇥ann⇥Hello.`",
        kinds={".log": "whole", ".weechatlog": "whole", ".txt": "whole"},
        reader="pipelines.corpus.irc:Irc",
    ),
    _log(
        name="vtt",
        document="turns of a call, or the text of captions without speakers (WebVTT)",
        example="`00:01:02.000 --> 00:01:04.000` / `<v Ann>Hello.`",
        kinds={".vtt": "whole"},
        reader="pipelines.corpus.subtitles:Subtitles",
    ),
    _log(
        name="srt",
        document="turns of a call, or the text of subtitles without speakers (SubRip)",
        example="`1` / `00:01:02,000 --> 00:01:04,000` / `Ann: Hello.`",
        kinds={".srt": "whole"},
        reader="pipelines.corpus.subtitles:Subtitles",
    ),
    _log(
        name="transcript",
        document="turns of a call, or messages of a meeting's chat, with times",
        example="`[00:01:02] Ann: Hello.` or `Ann  1:02` / `Hello.`",
        kinds={".txt": "whole", ".md": "whole"},
        reader="pipelines.corpus.transcript:Transcript",
    ),
)
