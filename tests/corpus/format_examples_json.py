"""Examples of dialogues in JSON, in the layouts of their programs and corpora, with made-up content."""

from __future__ import annotations

import json
from typing import Any

from format_example import Example

ASK = "Hello, this is Ann Example, my order is late."
REPLY = "I am sorry to hear that. What is the number of the order?"
FOLDS = ("train", "test")
THANKS = "It is 5512, thank you for looking."


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def whole(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def chat(speaker: str, text: str, names: tuple[str, str], **more: Any) -> list[dict[str, Any]]:
    """Three turns, with the names of the fields and of the speakers."""
    said = zip((names[0], names[1], names[0]), (ASK, REPLY, THANKS), strict=True)
    return [{speaker: who, text: what, **more} for who, what in said]


OPENAI = chat("role", "content", ("user", "assistant"))
SYSTEM = {"role": "system", "content": "You are a helpful clerk."}
TOOLS = [
    SYSTEM,
    {"role": "user", "content": [{"type": "text", "text": ASK}, {"type": "image_url", "image_url": {"url": "x"}}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]},
    {"role": "tool", "tool_call_id": "c1", "content": "{}"},
    {"role": "assistant", "content": [{"type": "text", "text": REPLY}]},
]


def _node(name: str, parent: str | None, message: dict[str, Any] | None) -> dict[str, Any]:
    return {"id": name, "parent": parent, "children": [], "message": message}


def _message(role: str, parts: list[Any], **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": parts}
    return {"author": {"role": role}, "create_time": 1.5, "content": content, "recipient": "all", **more}


CHATGPT = {
    "title": "Late order",
    "create_time": 1700000000.5,
    "conversation_id": "c-1",
    "current_node": "n4",
    "mapping": {
        "root": _node("root", None, None),
        "n0": _node("n0", "root", _message("system", [""])),
        "n1": _node("n1", "n0", _message("user", [ASK])),
        "n2": _node("n2", "n1", _message("assistant", ["A branch that the user left."])),
        "n3": _node("n3", "n1", _message("assistant", [REPLY])),
        "n4": _node("n4", "n3", _message("user", [{"content_type": "image_asset_pointer"}, THANKS])),
    },
}

WORDS = [("spk_0", "Hello", "."), ("spk_1", "Good", ""), ("spk_1", "morning", "!"), ("spk_0", "Bye", ".")]


def _amazon() -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for at, (_, word, mark) in enumerate(WORDS):
        items.append({"type": "pronunciation", "start_time": f"{at}.0", "alternatives": [{"content": word}]})
        items += [{"type": "punctuation", "alternatives": [{"content": mark}]}] if mark else []
    segments = [
        {"speaker_label": who, "start_time": f"{at}.0", "items": [{"start_time": f"{at}.0", "speaker_label": who}]}
        for at, (who, _, _) in enumerate(WORDS)
    ]
    results = {"transcripts": [{"transcript": "…"}], "speaker_labels": {"segments": segments}, "items": items}
    return {"jobName": "call-7", "accountId": "0", "results": results, "status": "COMPLETED"}


def _timed(*said: tuple[str | int | None, str], text: str = "text") -> list[dict[str, Any]]:
    made = [{"start": at + 0.5, "end": at + 1.0, text: what, "speaker": who} for at, (who, what) in enumerate(said)]
    return [{key: value for key, value in one.items() if value is not None} for one in made]


CALL = (("SPEAKER_00", ASK), ("SPEAKER_01", "I am sorry."), ("SPEAKER_01", "Which order?"), ("SPEAKER_00", THANKS))
TASKMASTER = [
    {
        "conversation_id": f"dlg-{n}",
        "scenario": "Order drink",
        "instructions": "*SCENARIO* Imagine you order a drink from the menu below and write what you would say. " * 3,
        "utterances": [{"index": i, **turn} for i, turn in enumerate(chat("speaker", "text", ("user", "assistant")))],
    }
    for n in range(3)
]
MULTIWOZ = {
    f"PMUL{n}.json": {
        "goal": {"taxi": {}, "message": ["You want to book a taxi.", "The taxi should leave after 5."]},
        "log": [{"text": f"{text} {n}", "metadata": {}} for text in (ASK, REPLY, THANKS)],
    }
    for n in range(4)
}
MULTIWOZ_22 = [
    {
        "dialogue_id": f"PMUL{n}.json",
        "services": ["taxi"],
        "turns": [
            {"frames": [], "turn_id": str(i), **turn}
            for i, turn in enumerate(chat("speaker", "utterance", ("USER", "SYSTEM")))
        ],
    }
    for n in range(3)
]
ALPACA = {"instruction": "Answer the customer.", "input": ASK, "output": REPLY}
HUMAN = f"\n\nHuman: {ASK}\n\nAssistant: {REPLY}\nNote: this line belongs to the answer.\n\nHuman: {THANKS}"
SAMSUM = {"id": "13", "summary": "Ann asks.", "dialogue": "Ann: Did you see it?\r\nBob: No, not yet\r\nAnn: Look again"}

EXAMPLES: dict[str, Example] = {
    "messages": Example("train.jsonl", lines(*({"messages": [SYSTEM, *OPENAI]} for _ in range(3))), 3, 12, 3),
    "messages_parts": Example("a.jsonl", lines({"messages": TOOLS}, {"messages": OPENAI}), 2, 6, 3),
    "messages_array": Example("a.json", whole([{"messages": OPENAI}, {"messages": OPENAI}]), 2, 6, 2),
    "messages_requests": Example("batch.jsonl", lines({"custom_id": "r1", "body": {"messages": OPENAI}}), 1, 3, 2),
    "messages_lists": Example("a.jsonl", lines(OPENAI, OPENAI), 2, 6, 2),
    "chatgpt": Example("conversations.json", whole([CHATGPT, {**CHATGPT, "conversation_id": "c-2"}]), 2, 6, 2),
    "claude": Example(
        "conversations.json",
        whole([{"uuid": n, "name": "", "chat_messages": chat("sender", "text", ("human", "assistant"))} for n in "12"]),
        2, 6, 2,
    ),
    "gemini": Example(
        "a.jsonl",
        lines({"contents": [{"role": r, "parts": [{"text": t}]} for r, t in (("user", ASK), ("model", REPLY))]}),
        1, 2, 2,
    ),
    "sharegpt": Example(
        "sg.json", whole([{"id": n, "conversations": chat("from", "value", ("human", "gpt"))} for n in "123"]), 3, 9, 2
    ),
    "sharegpt_roles": Example("sg.jsonl", lines({"conversations": OPENAI}, {"conversations": OPENAI}), 2, 6, 2),
    "instructions": Example("alpaca.json", whole([ALPACA, {**ALPACA, "input": ""}]), 2, 4, 2),
    "completions": Example("pairs.jsonl", lines({"prompt": ASK, "completion": REPLY}), 1, 2, 2),
    "human_assistant": Example(
        "hh.jsonl", lines({"chosen": HUMAN, "rejected": HUMAN}, {"chosen": HUMAN, "rejected": ""}), 2, 6, 2
    ),
    "samsum": Example("samsum.json", whole([SAMSUM, SAMSUM]), 2, 6, 2),
    "turns": Example("a.jsonl", lines({"turns": chat("speaker", "text", ("USER", "SYSTEM"))}), 1, 3, 2),
    "taskmaster": Example("tm1.json", whole(TASKMASTER), 3, 9, 2),
    "multiwoz": Example("data.json", whole(MULTIWOZ), 4, 12, 2),
    "multiwoz22": Example("dialogues_001.json", whole(MULTIWOZ_22), 3, 9, 2),
    "schema_guided": Example("dialogues_001.json", whole(MULTIWOZ_22[:1]), 1, 3, 2),
    "dailydialog": Example("a.jsonl", lines({"dialog": [ASK, REPLY, THANKS], "act": [1, 2, 1]}), 1, 3, 2),
    "data_wrapped": Example(
        "a.json",
        whole({"version": "1", "data": [{"id": n, "chat": chat("who", "said", ("Ann", "Bob"))} for n in range(3)]}),
        3, 9, 2,
    ),
    "folds_wrapped": Example(
        "a.json", whole({fold: [{"turns": chat("speaker", "text", ("A", "B"))}] * 2 for fold in FOLDS}), 4, 12, 2
    ),
    "list_of_lists": Example("a.json", whole([chat("speaker", "text", ("Ann", "Bob"))] * 3), 3, 9, 2),
    "one_object": Example("call.json", whole({"id": "7", "turns": chat("party", "line", ("Ann", "Bob"))}), 1, 3, 2),
    "unknown_names": Example(
        "a.jsonl", lines(*({"blub": chat("zz", "yy", ("Ann", "Bob"), xx=1), "n": n} for n in range(8))), 8, 24, 2
    ),
    "diarised": Example(
        "whisperx.json", whole({"segments": _timed(*CALL), "word_segments": [], "language": "en"}), 1, 3, 2
    ),
    "whisper": Example("whisper.json", whole({"text": ASK, "segments": _timed((None, ASK), (None, REPLY))}), 1, 1, 0),
    "segments_only": Example("pyannote.json", whole(_timed(*CALL)), 1, 3, 2),
    "amazon": Example("asrOutput.json", whole(_amazon()), 1, 3, 2),
    "amazon_connect": Example(
        "analysis.json",
        whole({"Transcript": [
            {"ParticipantRole": who, "Content": text, "BeginOffsetMillis": 1}
            for who, text in (("AGENT", ASK), ("CUSTOMER", REPLY))
        ]}),
        1, 2, 2,
    ),
    "deepgram": Example(
        "dg.json",
        whole({"metadata": {}, "results": {"utterances": _timed((0, ASK), (1, REPLY), text="transcript")}}),
        1, 2, 2,
    ),
    "deepgram_words": Example(
        "dg.json",
        whole({"metadata": {}, "results": {"channels": [{"alternatives": [{
            "transcript": "hello bye", "words": [{"word": "hello", "punctuated_word": "Hello.", "speaker": 0},
                                                 {"word": "bye", "punctuated_word": "Bye.", "speaker": 1}]}]}]}}),
        1, 2, 2,
    ),
    "assemblyai": Example(
        "aai.json", whole({"text": ASK, "utterances": _timed(("A", ASK), ("B", REPLY), ("B", "Yes."))}), 1, 2, 2
    ),
    "google": Example(
        "gcp.json",
        whole({"results": [
            {"alternatives": [{"transcript": "Hello. Good morning!"}]},
            {"alternatives": [{"words": [{"word": "Hello.", "speakerTag": 1}, {"word": "Good", "speakerTag": 2},
                                         {"word": "morning!", "speakerTag": 2}]}]},
        ]}),
        1, 2, 2,
    ),
    "azure": Example(
        "azure.json",
        whole({"recognizedPhrases": [
            {"channel": 0, "speaker": n, "offsetInTicks": n, "nBest": [{"display": text}, {"display": "no"}]}
            for n, text in ((1, ASK), (2, REPLY))
        ]}),
        1, 2, 2,
    ),
    "rev": Example(
        "rev.json",
        whole({"monologues": [
            {"speaker": n, "elements": [{"type": "text", "value": "Good"}, {"type": "punct", "value": " "},
                                        {"type": "text", "value": "day"}, {"type": "punct", "value": "."}]}
            for n in (0, 1)
        ]}),
        1, 2, 2,
    ),
    "speechmatics": Example(
        "sm.json",
        whole({"format": "2.9", "results": [
            {"type": kind, "start_time": 0.1, "alternatives": [{"content": word, "speaker": who}]}
            for kind, word, who in (("word", "Hello", "S1"), ("punctuation", ".", "S1"), ("word", "Yes", "S2"))
        ]}),
        1, 2, 2,
    ),
}  # fmt: skip

_MESSAGES = ("messages", "messages_parts", "messages_array", "messages_requests", "messages_lists", "sharegpt_roles")
_CALLS = (
    "diarised", "whisper", "segments_only", "amazon", "amazon_connect", "deepgram", "deepgram_words", "assemblyai",
    "google", "azure", "rev", "speechmatics",
)  # fmt: skip
FORMATS = (
    dict.fromkeys(EXAMPLES, "turns")
    | dict.fromkeys(_MESSAGES, "messages")
    | dict.fromkeys(_CALLS, "diarised")
    | dict.fromkeys(("instructions", "completions"), "instructions")
    | {"chatgpt": "chatgpt", "sharegpt": "sharegpt"}
)
"""Format of each example, which `pipelines.corpus.recognise_json` must find, with its fields."""


def example(format: str) -> bytes:
    """Returns a short real file of a format."""
    return EXAMPLES[format].data
