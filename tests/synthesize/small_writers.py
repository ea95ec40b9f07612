"""Small models with random weights that write, opened as trained ones are."""

import torch
from support.tiny import ADDED
from transformers import LlamaConfig, LlamaForCausalLM

from pipelines.training.data.vocabulary import learn_vocabulary
from pipelines.training.models.adaptation import Adaptation, adapt
from pipelines.training.models.network import build_model
from pipelines.training.models.recurrent import build_recurrent
from pipelines.training.models.shape import ModelShape
from pipelines.training.trained import TrainedModel

CONTEXT = 96
VOCABULARY = learn_vocabulary("bytes", 400, (), ADDED)
SIZE = VOCABULARY.backend.get_vocab_size()


def _gpt2():
    shape = ModelShape(num_layers=2, num_heads=2, embedding_size=32, context_length=CONTEXT)
    return build_model(shape, SIZE, VOCABULARY.control, 0)


def _llama():
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=SIZE, max_position_embeddings=CONTEXT, pad_token_id=None, **sizes))


def _prefix():
    return adapt(_gpt2(), Adaptation(kind="prefix", prefix_length=3), "causal")


KINDS = {
    "gpt2": _gpt2,
    "llama": _llama,
    "prefix": _prefix,
    "lstm": lambda: build_recurrent(SIZE, 0),
    "gru": lambda: build_recurrent(SIZE, 0, kind="gru"),
}


def writer(kind="gpt2", task="language_modelling"):
    """A model whose weights are large enough that it is sure of what comes next."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = KINDS[kind]().eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(3)
    told = {"method": "dpsgd", "task": task, "context_length": CONTEXT, "marks_tokens": False}
    return TrainedModel(model.requires_grad_(False), VOCABULARY, told)
