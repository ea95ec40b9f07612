"""Reads pairs of a prompt and an answer (Alpaca, Dolly, prompt and completion) as dialogues of two turns or more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from pipelines.corpus.dialogues import Items
from pipelines.corpus.format_list_chats import ADDITIONS, ANSWERS, PROMPTS, SYSTEMS
from pipelines.corpus.items import BadRow
from pipelines.corpus.records import Record, Source
from pipelines.corpus.transcripts import transcript_turns
from pipelines.corpus.turns import Turn, dialogue_of, list_of_turns

_PAIR: Final = ("user", "assistant")


def instructions(source: Source, record: Record) -> Items:
    """Returns a dialogue: the system's text, earlier pairs in ``history``, the prompt with its input, and the answer.

    A prompt or an answer may be a list of messages with ``role`` and ``content``.

    Raises:
        BadRow: the record has no prompt or no answer.
    """
    left_out: Counter[str] = Counter()
    prompt, answer = _first(record, PROMPTS), _first(record, ANSWERS)
    addition = _first(record, ADDITIONS)
    if prompt is None:
        prompt, addition = addition, None
    if prompt is None or answer is None:
        raise BadRow(
            "missing_text", f"needs a prompt ({', '.join(PROMPTS)}) and an answer ({', '.join(ANSWERS)}) as fields."
        )
    found = _turns(_first(record, SYSTEMS), "system", source, left_out)
    history = record.get("history")
    for pair in history if isinstance(history, list) else []:
        if isinstance(pair, list) and len(pair) == 2:
            found += [
                turn for part, role in zip(pair, _PAIR, strict=True) for turn in _turns(part, role, source, left_out)
            ]
        else:
            found.append(Turn(None, "", is_usable=False))
    question = _turns(prompt, _PAIR[0], source, left_out)
    if isinstance(addition, str) and addition.strip() and question:
        question[-1] = question[-1]._replace(text=f"{question[-1].text}\n{addition}")
    reply = _turns(answer, _PAIR[1], source, left_out)
    if not any(turn.text.strip() for turn in reply):
        raise BadRow("empty", "the answer is empty.")
    return dialogue_of(source, record, [*found, *question, *reply], left_out)


def _first(record: Record, names: Sequence[str]) -> Any:
    return next((record[name] for name in names if record.get(name) not in (None, "")), None)


def _turns(value: Any, role: str, source: Source, left_out: Counter[str]) -> list[Turn]:
    if value is None:
        return []
    if isinstance(value, str):
        is_transcript = role == _PAIR[0] and value.lstrip().startswith("Human:")
        turns = (transcript_turns(value) or []) if is_transcript else [(role, value)]
        return [Turn(speaker, text) for speaker, text in turns if text.strip() or not is_transcript]
    if isinstance(value, list):
        return list_of_turns(value, "messages", source.options, left_out)
    return [Turn(role, "", is_usable=False)]
