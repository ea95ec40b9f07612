"""Reads transcripts of calls in JSON, as services and programs for speech recognition write them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pipelines.corpus.dialogues import Items
from pipelines.corpus.items import BadRow
from pipelines.corpus.records import Record, Source, document, value_at
from pipelines.corpus.turns import ITSELF, Turn, dialogue_of, speaker_of

SEGMENTS: Final = (
    "utterances", "results.utterances", "results.audio_segments", "segments", "monologues", "recognizedPhrases",
    "Transcript", "speakers", "chunks", "transcript", ITSELF,
)  # fmt: skip
"""Places of the list of segments, each with a speaker and a text."""

_SPEAKERS: Final = (
    "speaker",
    "speaker_label",
    "speakerTag",
    "speakerLabel",
    "ParticipantRole",
    "speaker_id",
    "channel",
)
_TEXTS: Final = ("text", "transcript", "Content", "content", "sentences", "elements", "nBest", "words")
_WORDS: Final = ("punctuated_word", "word", "value", "content", "display", "text")
_LABEL: Final = re.compile(r"(?:(?:s|spk|speaker|ch|channel|participant)[ _-]?)?([0-9]{1,3})", re.I)
_UNKNOWN: Final = ("", "uu", "unknown", "none", "null")
_NO_SPACE: Final = re.compile(r"[.,!?;:%)\]’'…]+(?:s\b)?")
_MAX_DEPTH: Final = 4


def diarised(source: Source, record: Record) -> Items:
    """Returns the transcript of a call. Consecutive segments of one speaker make one turn.

    A transcript that names no speaker at all is plain text.

    Raises:
        BadRow: the record has neither segments nor words of a known form.
    """
    left_out: Counter[str] = Counter()
    found = segments_of(record, source.options.turns_field)
    if found is None:
        raise BadRow("no_turns", "has no segments with speakers. Set corpus.turns_field to the list of segments.")
    texts = [turn.text.strip() for turn in found if turn.text.strip()]
    if texts and not any(turn.speaker for turn in found):
        return [document(source, " ".join(texts), record)]
    return dialogue_of(source, record, _joined(found), left_out)


def _joined(turns: Iterable[Turn]) -> list[Turn]:
    parts: list[tuple[Turn, list[str]]] = []
    for turn in turns:
        if parts and turn.is_usable and parts[-1][0].is_usable and parts[-1][0].speaker == turn.speaker:
            parts[-1][1].append(turn.text.strip())
        else:
            parts.append((turn, [turn.text.strip()]))
    return [turn._replace(text=" ".join(filter(None, texts))) for turn, texts in parts]


def segments_of(record: Record, turns_field: str = "") -> list[Turn] | None:
    """Returns the segments of a record, or the runs of words by one speaker; None if it has neither."""
    own = turns_field.rpartition("*")[2].strip(".")
    for place in (own, *SEGMENTS) if own else SEGMENTS:
        value = value_at(record, place)
        if isinstance(value, list) and value:
            found = [_turn(segment) for segment in value]
            if any(turn.is_usable for turn in found):
                return found
    for of_words in _BY_WORD:
        turns = of_words(record)
        if turns:
            return turns
    return None


def _turn(segment: Any) -> Turn:
    """Returns a segment's turn. One without a text in any known field is unusable."""
    if not isinstance(segment, Mapping):
        return Turn(None, "", is_usable=False)
    text = next((text for name in _TEXTS if (text := _text(segment.get(name))) is not None), None)
    return Turn(_label(segment), text or "", is_usable=text is not None)


def _label(segment: Any) -> str | None:
    """Returns a speaker. Labels such as spk_0 or A become roles, because they name no person."""
    values = (value_at(segment, name) for name in _SPEAKERS)
    name = next((found for value in values if (found := speaker_of(value)) is not None), None)
    if name is None or name.lower() in _UNKNOWN:
        return None
    if match := _LABEL.fullmatch(name):
        return f"SPEAKER_{int(match[1])}"
    return f"SPEAKER_{ord(name) - 64}" if re.fullmatch("[A-Z]", name) else name


def _text(value: Any, depth: int = 0) -> str | None:
    """Returns a text: a string, the texts of a list of sentences, or the words of a list of words."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or depth > _MAX_DEPTH:
        return None
    if value and isinstance(value[0], Mapping) and "display" in value[0]:  # alternatives, the best one first
        return _text(value[0]["display"], depth + 1)
    parts = [
        next((one[n] for n in _WORDS if isinstance(one.get(n), str)), None) for one in value if isinstance(one, Mapping)
    ]
    has_blanks = any(part is not None and part.isspace() for part in parts)
    words = [part for part in parts if part is not None]
    return "".join(words) if has_blanks else _sentence(words)


def _sentence(words: Iterable[str]) -> str:
    """Joins words with blanks. Punctuation follows the word before it directly."""
    text = ""
    for word in words:
        text += word if not text or _NO_SPACE.fullmatch(word) else f" {word}"
    return text


def _by_speaker(words: Iterable[tuple[str | None, str]]) -> list[Turn]:
    """Returns a turn for each run of words of one speaker. Punctuation without a speaker belongs to the word before."""
    runs: list[tuple[str | None, list[str]]] = []
    for speaker, word in words:
        if runs and (speaker == runs[-1][0] or (speaker is None and _NO_SPACE.fullmatch(word))):
            runs[-1][1].append(word)
        else:
            runs.append((speaker, [word]))
    return [Turn(speaker, _sentence(run)) for speaker, run in runs]


def _amazon(record: Record) -> list[Turn]:
    """Reads Amazon Transcribe: words in ``results.items``, speakers there or by the time of a word."""
    segments = value_at(record, "results.speaker_labels.segments")
    speakers: dict[str, str | None] = {}
    for segment in _objects(segments):
        for item in _objects(segment.get("items")):
            speakers[str(item.get("start_time"))] = _label(item) or _label(segment)
    words = []
    for item in _objects(value_at(record, "results.items")):
        speaker = _label(item) or speakers.get(str(item.get("start_time")))
        for best in list(_objects(item.get("alternatives")))[:1]:
            words += [(speaker, text)] if (text := _text([best])) else []
    return _by_speaker(words)


def _deepgram(record: Record) -> list[Turn]:
    """Reads Deepgram without utterances: paragraphs, or words, of each channel's best alternative."""
    found: list[Turn] = []
    channels = list(_objects(value_at(record, "results.channels")))
    for number, channel in enumerate(channels):
        for best in list(_objects(channel.get("alternatives")))[:1]:
            other = f"SPEAKER_{number}" if len(channels) > 1 else None
            paragraphs = [_turn(one) for one in _objects(value_at(best, "paragraphs.paragraphs"))]
            words = [(_label(word), text) for word in _objects(best.get("words")) if (text := _text([word]))]
            turns = paragraphs or _by_speaker(words) or [Turn(None, _text(best.get("transcript")) or "")]
            found += [turn._replace(speaker=turn.speaker or other) for turn in turns]
    return found


def _words_of_results(record: Record) -> list[Turn]:
    """Reads Google and Speechmatics: results with alternatives, whose words, or which themselves, name a speaker."""
    results = list(_objects(record.get("results")))
    best = [one for result in results for one in list(_objects(result.get("alternatives")))[:1]]
    tagged = [list(_objects(one.get("words"))) for one in best if any(map(_label, _objects(one.get("words"))))]
    if tagged:  # Google's last result repeats all words, with their speakers
        return _by_speaker((_label(word), text) for word in tagged[-1] if (text := _text([word])))
    words = [(_label(one), text) for one in best if (text := _text([one]))]
    return _by_speaker(words) or [Turn(None, text) for one in best if (text := _text(one.get("transcript")))]


def _objects(value: Any) -> Iterable[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else ()


_BY_WORD: Final[tuple[Callable[[Record], list[Turn]], ...]] = (_amazon, _deepgram, _words_of_results)
