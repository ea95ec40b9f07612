"""Layers that have a rule: those of sequences by the width of their input, and others with an input that fits."""

import torch
from torch import nn


def _conv1d(width):
    from transformers.pytorch_utils import Conv1D

    return Conv1D(4, width)


def _llama_norm(width):
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    return LlamaRMSNorm(width)


LAYERS = {
    "linear": lambda d: nn.Linear(d, 5),
    "linear without bias": lambda d: nn.Linear(d, 3, bias=False),
    "conv1d": _conv1d,
    "layer norm": nn.LayerNorm,
    "layer norm without bias": lambda d: nn.LayerNorm(d, bias=False),
    "rms norm": nn.RMSNorm,
    "rms norm of llama": _llama_norm,
    "lstm": lambda d: nn.LSTM(d, 3, batch_first=True),
    "lstm, two layers, both directions": lambda d: nn.LSTM(d, 3, 2, batch_first=True, bidirectional=True),
    "lstm without bias": lambda d: nn.LSTM(d, 4, batch_first=True, bias=False),
}


class Attention(nn.Module):
    """One sequence looks at another, or at itself."""

    def __init__(self, source, **options):
        super().__init__()
        self.source = source
        self.first = nn.Linear(4, 4)
        wide = {"kdim": 3, "vdim": 5} if source == "widths" else {}
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True, **wide, **options)
        self.mask, self.need_weights = None, False

    def forward(self, x, hidden=None):
        query = self.first(x[:, 1:])
        key = value = query if self.source == "self" else self.first(x)
        if self.source == "widths":
            key, value = x[:, :, :3], torch.cat([x, x[:, :, :1]], dim=2)
        out, weights = self.attention(
            query, key, value, attn_mask=self.mask, need_weights=self.need_weights, key_padding_mask=hidden
        )
        return out if weights is None else out + weights.sum(dim=2, keepdim=True).square()


IMAGE_LAYERS = {
    "convolution, 1 axis": (lambda: nn.Conv1d(3, 5, 3, padding=1), (3, 17)),
    "convolution, stride and dilation": (lambda: nn.Conv1d(3, 4, 3, stride=2, dilation=2, padding=2), (3, 17)),
    "convolution, groups": (lambda: nn.Conv2d(4, 6, 3, groups=2, padding="same"), (4, 9, 8)),
    "convolution, 2 axes": (lambda: nn.Conv2d(3, 5, 3, padding_mode="circular", padding=1), (3, 9, 8)),
    "convolution, 3 axes": (lambda: nn.Conv3d(2, 3, 2), (2, 5, 6, 4)),
    "group norm": (lambda: nn.Sequential(nn.Conv1d(3, 4, 1), nn.GroupNorm(2, 4)), (3, 11)),
    "gru, two layers, both directions": (lambda: nn.GRU(6, 5, 2, bidirectional=True, batch_first=True), (7, 6)),
    "attention, self": (lambda: Attention("self"), (9, 4)),
    "attention, other widths": (lambda: Attention("widths", add_bias_kv=True), (9, 4)),
}
"""The layer, and the shape of an example."""


def rough(model):
    """Draws every parameter anew: zeros and ones would hide mistakes."""
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


def drawn_layer(name, size, length, width):
    """A layer of `LAYERS` or `IMAGE_LAYERS` with random weights, and (size, ...) inputs."""
    if name in LAYERS:
        return rough(LAYERS[name](width)), torch.randn(size, length, width)
    make, shape = IMAGE_LAYERS[name]
    return rough(make()), torch.randn(size, *shape)
