"""Response generation on Persona-Chat (Zhang et al. 2018), as in Li et al. (2022), section 5.3.

A record is one dialogue with its persona, so that one person's conversation is one unit of privacy; the papers' code
makes a record of every reply, of which a dialogue has many. The loss is on the replies of the one whose persona it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipelines.errors import InputError
from pipelines.training.models.vocabulary import TextEncoder
from pipelines.training.tasks.examples import Example
from pipelines.training.tasks.language_modelling import Turn, dialogue_example
from pipelines.training.tokenizer import ControlTokens

PERSONA: Final = "PERSONA"
OTHER: Final = "OTHER"
SELF: Final = "SELF"
SPEAKERS: Final = (OTHER, PERSONA, SELF)
"""The speakers that need a control token."""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """A dialogue of one who has a persona with another.

    Attributes:
        persona: sentences about the one.
        utterances: in turns, the other first.
    """

    persona: tuple[str, ...]
    utterances: tuple[str, ...]


def read_persona_chat(path: Path, fold: str) -> Iterator[Conversation]:
    """The dialogues of a fold of the JSON form in which the data set is usually shared (ConvAI2).

    It is ``{fold: [{"personality": [...], "utterances": [{"history": [...], "candidates": [...]}]}]}``; the last
    candidate is what was really said.

    Raises:
        InputError: it has another form.
    """
    try:
        dialogues = json.loads(path.read_text(encoding="utf-8"))[fold]
        for dialogue in dialogues:
            last = dialogue["utterances"][-1]
            yield Conversation(
                persona=tuple(dialogue["personality"]), utterances=(*last["history"], last["candidates"][-1])
            )
    except (KeyError, TypeError, IndexError):
        raise InputError(
            f"responses: the file needs a fold {fold!r} of personality and utterances (history, candidates)"
        ) from None


def turns_of(conversation: Conversation) -> list[Turn]:
    """The persona as a turn of its own, then the utterances."""
    turns: list[Turn] = [(PERSONA, " ".join(conversation.persona))]
    turns += [((OTHER, SELF)[at % 2], text) for at, text in enumerate(conversation.utterances)]
    return turns


def conversation_example(
    conversation: Conversation, encoder: TextEncoder, control: ControlTokens, context_length: int
) -> Example:
    """One dialogue; asked for are the replies and their ends."""
    return dialogue_example(turns_of(conversation), encoder, control, context_length, learn_speakers=(SELF,))


@dataclass(frozen=True, kw_only=True)
class ReplyPrompt:
    """What is said before a reply, and the reply.

    Attributes:
        ids: the persona, as much of the latest history as fits, and the speaker's token.
        reference: what was really said.
    """

    ids: list[int]
    reference: str


def reply_prompts(
    conversation: Conversation,
    encoder: TextEncoder,
    control: ControlTokens,
    context_length: int,
    max_new_tokens: int,
) -> list[ReplyPrompt]:
    """A prompt for each reply of a dialogue; where the context is short, the oldest turns go and the persona stays."""
    persona, *rest = turns_of(conversation)
    encoded = [
        [*control.speaker(speaker), *ids, control.eos]
        for (speaker, _), ids in zip([persona, *rest], encoder.ids(text for _, text in [persona, *rest]), strict=True)
    ]
    speaker = control.speaker(SELF)
    prompts = []
    for at in range(1, len(rest), 2):
        room = context_length - max_new_tokens - 1 - len(speaker)
        about = encoded[0][: max(0, room)]
        history = _latest(encoded[1 : at + 1], room - len(about))
        prompts.append(ReplyPrompt(ids=[control.bos, *about, *history, *speaker], reference=rest[at][1]))
    return prompts


def _latest(turns: Sequence[Sequence[int]], room: int) -> list[int]:
    kept: list[int] = []
    for turn in reversed(turns):
        if len(kept) + len(turn) > room:
            break
        kept = [*turn, *kept]
    return kept
