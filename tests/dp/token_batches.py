"""Batches of token ids, and the losses of language models on them."""

import torch
from engine_models import (
    seeded,
)

from pipelines.dp.language import causal_lm_losses


def token_batch(size=3, length=7, vocab=19, seed=0, padding=True):
    with seeded(seed):
        ids = torch.randint(2, vocab, (size, length))
        mask = torch.ones(size, length, dtype=torch.long)
        if padding:
            for row in range(size):
                mask[row, length - row % length :] = 0
    labels = ids.masked_fill(mask == 0, -100)
    return {"ids": ids, "mask": mask, "labels": labels}


def lm_losses(model, batch):
    return causal_lm_losses(model, batch["ids"], batch["labels"], attention_mask=batch["mask"])
