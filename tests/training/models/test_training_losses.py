"""One loss for every model: through the fused head where there is a plain one, from logits otherwise."""

import numpy as np
import pytest
import torch
from support.patches import patching
from support.small_models import FAMILIES, coding, load_model, sentence_example, write
from support.tiny import CONTROL, TOKENIZER, records_of, tiny_model

from pipelines.dp.language import PLAIN_HEADS, causal_lm_losses, has_prefix, output_losses, token_losses
from pipelines.training.models.adaptation import Adaptation
from pipelines.training.models.loading import padding_of
from pipelines.training.models.losses import example_losses, logits_of
from pipelines.training.models.recurrent import build_recurrent

TEXTS = ["may I see it", "I am <MASK>, may I go on", "<MASK>", "x"]


def by_hand(model, batch):
    """The mean over each example's own targets, one position at a time."""
    found = []
    logits = logits_of(model, batch).double()
    for row in range(len(batch.inputs)):
        asked = [t for t in range(batch.inputs.shape[1]) if batch.weights[row, t] > 0]
        each = [torch.logsumexp(logits[row, t], 0) - logits[row, t, batch.labels[row, t]] for t in asked]
        found.append(torch.stack(each).mean() if each else torch.zeros((), dtype=torch.float64))
    return torch.stack(found).float()


@pytest.mark.parametrize(
    "build", [tiny_model, lambda: build_recurrent(TOKENIZER.get_vocab_size(), 3)], ids=["gpt2", "lstm"]
)
def test_models_from_scratch(build):
    model = build()
    batch = records_of(TEXTS).collate(np.arange(4)).to(torch.device("cpu"), torch.float32)
    losses = example_losses(model, batch)
    assert torch.allclose(losses, by_hand(model, batch), atol=1e-5)
    assert losses[2] == 0  # wholly masked
    assert CONTROL.mask not in batch.labels[batch.weights > 0]


@pytest.mark.parametrize("kind", ["full", "lora", "prefix"])
@pytest.mark.parametrize("family", [name for name, (_, kind) in FAMILIES.items() if kind == "causal"])
def test_pretrained_models(families, family, kind, tmp_path):
    loaded = load_model(families[family], "causal", seed=1, adaptation=Adaptation(kind=kind, prefix_length=3))
    examples = [sentence_example(t, None, *coding(loaded), 32) for t in TEXTS]
    batch = write(examples, padding_of(loaded), tmp_path).collate(np.arange(4))
    batch = batch.to(torch.device("cpu"), torch.float32)
    assert has_prefix(loaded.model) == (kind == "prefix")
    assert torch.allclose(example_losses(loaded.model, batch), by_hand(loaded.model, batch), atol=1e-5)


def test_the_fused_head_and_the_logits_agree():
    model = tiny_model()
    ids = torch.randint(0, 200, (3, 9), generator=torch.Generator().manual_seed(0))
    labels = ids.clone()
    labels[1, 4:] = labels[2, :] = -100
    weights = torch.rand(3, 9, generator=torch.Generator().manual_seed(1))
    for given in (None, weights):
        fused = causal_lm_losses(model, ids, labels, weights=given)
        with patching() as patch:
            patch.constant("pipelines.dp.language", "PLAIN_HEADS", PLAIN_HEADS - {"GPT2LMHeadModel"})
            assert torch.allclose(causal_lm_losses(model, ids, labels, weights=given), fused, atol=1e-5)
    assert fused[2] == 0
    shifted = output_losses(model, {"input_ids": ids}, ids)  # asked for what it reads, not for what comes next
    assert not torch.allclose(shifted, causal_lm_losses(model, ids, ids), atol=1e-3)
    assert token_losses(model(ids).logits, ids).shape == (3, 9)
