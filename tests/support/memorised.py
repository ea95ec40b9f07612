"""Tiny trained models for the tests of attacks: texts are learnt by heart in a second or two."""

import torch
from torch.nn import functional as F

from pipelines.training.data.tokenizer import loadable
from pipelines.training.data.vocabulary import TextEncoder, Vocabulary
from pipelines.training.models.shape import ModelShape
from pipelines.training.trained import TrainedModel
from support.tiny import CONTROL, TOKENIZER, tiny_model

CONTEXT = 48
SHAPE = ModelShape(num_layers=1, num_heads=2, embedding_size=32, context_length=CONTEXT)
VOCABULARY = Vocabulary(
    tokenizer=loadable(TOKENIZER),
    control=CONTROL,
    encoder=TextEncoder(TOKENIZER, CONTROL, None),
    kind="bytes",
    trained_on="none",
)
DESCRIPTION = {"method": "no_dp", "task": "language_modelling", "context_length": CONTEXT, "marks_tokens": False}


def trained_on(records, num_steps=70, seed=0):
    """A small GPT-2 that has read the records so often that it knows them by heart."""
    model = tiny_model(seed, SHAPE)
    trained = TrainedModel(model, VOCABULARY, DESCRIPTION)
    encoded = trained.encode(records)
    longest = int(encoded.lengths.max())
    ids = torch.full((len(encoded), longest), CONTROL.pad)
    labels = torch.full((len(encoded), longest), -100)
    for row in range(len(encoded)):
        part = slice(encoded.offsets[row], encoded.offsets[row + 1])
        own = torch.from_numpy(encoded.ids[part].astype("int64"))
        ids[row, : len(own)] = own
        labels[row, : len(own)] = torch.where(torch.from_numpy(encoded.is_target[part]), own, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(num_steps):
        logits = model(input_ids=ids[:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return trained
