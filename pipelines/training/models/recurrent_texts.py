"""Draws texts from an LSTM or a GRU, which lack the ``generate`` of ``transformers``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from pipelines.training.models.drawing import likely
from pipelines.training.models.recurrent import RecurrentLanguageModel


def draw_texts(
    model: RecurrentLanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    max_new_tokens: int,
    forbidden: Sequence[int],
    end: int,
    generator: torch.Generator,
) -> list[list[int]]:
    """Returns the ids that follow each prompt. Ids after an end token mean nothing.

    Args:
        model: model to draw from.
        prompts: token ids of prompts, each at least one long. All are continued at once.
        temperature: divisor of the logits. At 0 the likeliest token is taken.
        top_k, top_p, max_new_tokens: settings as in `pipelines.training.scoring.generation.Sampling`.
        forbidden: ids that are never drawn.
        end: id of the end token.
        generator: random generator on the model's device.
    """
    device = generator.device
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    ids = pad_sequence([torch.tensor(list(prompt)) for prompt in prompts], batch_first=True)
    written: list[torch.Tensor] = []
    with torch.no_grad():
        output = model(ids.to(device), lengths=lengths)
        logits = output.logits[torch.arange(len(prompts), device=device), lengths.to(device) - 1]
        is_over = torch.zeros(len(prompts), dtype=torch.bool, device=device)
        while len(written) < max_new_tokens and not bool(is_over.all()):
            logits[:, list(forbidden)] = -torch.inf
            if temperature == 0:
                token = logits.argmax(dim=-1)
            else:
                drawn = likely(logits, temperature=temperature, top_k=top_k, top_p=top_p)
                token = torch.multinomial(drawn.softmax(dim=-1), 1, generator=generator)[:, 0]
            written.append(token)
            is_over |= token == end
            output = model(token[:, None], state=output.state)
            logits = output.logits[:, -1]
    rows: list[list[int]] = torch.stack(written, dim=1).tolist()
    return rows
