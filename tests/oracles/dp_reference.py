"""The slow, obvious form of a clipped gradient sum: one example at a time, by ordinary autograd."""

import torch
from torch.nn import functional


def example_gradient(model, ids, targets):
    """Gradient of the mean cross-entropy over the example's own targets; ``targets`` marks positions of ``ids``."""
    model.zero_grad(set_to_none=True)
    logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    terms = [
        functional.cross_entropy(logits[t - 1][None], torch.tensor([ids[t]])) for t in range(1, len(ids)) if targets[t]
    ]
    if not terms:
        return [torch.zeros_like(p) for p in model.parameters()]
    (sum(terms) / len(terms)).backward()
    return [p.grad.clone() for p in model.parameters()]


def norm(gradient):
    return float(torch.cat([g.flatten().double() for g in gradient]).norm())


def clipped_sum(model, examples, max_grad_norm):
    """``examples`` are pairs (ids, targets); each gradient is scaled by min(1, C / norm) and added up."""
    total = [torch.zeros_like(p) for p in model.parameters()]
    for ids, targets in examples:
        gradient = example_gradient(model, ids, targets)
        size = norm(gradient)
        factor = 1.0 if size <= max_grad_norm else max_grad_norm / size
        for into, part in zip(total, gradient, strict=True):
            into += factor * part
    return total
