"""Clipped gradients of a model that people use: SmolLM2 from its wheel, against one example at a time.

In full, a reference needs a copy of all gradients for every example; the last block and a head that is tied to the
embedding show the same rules, and low-rank additions are what the model is mostly trained with.
"""

import pytest
import torch
from engine_models import engine_sums
from oracles import dp_gradients
from support.small_models import load_model

from pipelines.dp.language import causal_lm_losses
from pipelines.errors import ConfigError
from pipelines.training.models.adaptation import Adaptation
from pipelines.training.models.sources import find_model

TEXTS = ["My package has not arrived yet.", "I am <MASK>, may I change my address, please?", "Yes."]


def lm_losses(model, batch):
    return causal_lm_losses(model, batch["ids"], batch["labels"])


def batch_of(loaded):
    control = loaded.vocabulary.control
    rows = [[control.bos, *ids, control.eos] for ids in loaded.vocabulary.encoder.ids(TEXTS)]
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), control.pad)
    labels = torch.full((len(rows), longest), -100)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = torch.tensor(row)
        labels[at, 1 : len(row)] = torch.tensor(row[1:])
    labels[ids == control.mask] = -100
    return {"ids": ids, "labels": labels}


@pytest.mark.slow
@pytest.mark.parametrize("adaptation", ["lora", "full"])
def test_clipped_sums_of_smollm2_are_those_of_one_example_at_a_time(adaptation):
    try:
        find_model("smollm2")
    except ConfigError as error:
        pytest.skip(str(error))
    loaded = load_model("smollm2", "causal", seed=0, adaptation=Adaptation(kind=adaptation), context_length=64)
    if adaptation == "full":  # the tied embedding, and the first and the last block
        loaded.model.requires_grad_(False)
        loaded.model.get_input_embeddings().requires_grad_(True)
        for block in (loaded.model.model.layers[0], loaded.model.model.layers[-1]):
            block.requires_grad_(True)
    loaded.model.double()  # in single precision thirty layers differ by 1e-4 with the shape of a batch alone
    batch = batch_of(loaded)

    def alone(model, index):
        return lm_losses(model, {name: rows[index : index + 1] for name, rows in batch.items()})[0]

    gradients = dp_gradients.example_gradients(loaded.model, alone, len(TEXTS))
    sizes = [dp_gradients.norm(gradient) for gradient in gradients]
    bound = sorted(sizes)[1]  # one is clipped, one is not
    found, norms = engine_sums(loaded.model, lm_losses, [batch], bound)
    assert norms == pytest.approx(sizes, rel=1e-5)
    assert dp_gradients.relative_error(found, dp_gradients.clipped_sum(gradients, bound)) < 1e-5
    for wrong in (1e9, 0.9 * bound):  # the comparison can tell
        assert dp_gradients.relative_error(found, dp_gradients.clipped_sum(gradients, wrong)) > 1e-3
