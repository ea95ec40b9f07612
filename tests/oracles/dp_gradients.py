"""The slow, obvious form of DP-SGD's gradients: one example at a time, by ordinary autograd."""

import torch


def example_gradients(model, losses_of, num_examples):
    """For each example, the gradients of its loss for all trainable parameters.

    ``losses_of(model, i)`` runs the model on example ``i`` alone and gives its loss.
    """
    found = []
    parameters = [p for p in model.parameters() if p.requires_grad]
    for index in range(num_examples):
        model.zero_grad(set_to_none=True)
        losses_of(model, index).backward()
        found.append([torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters])
    model.zero_grad(set_to_none=True)
    return found


def norm(gradients):
    return float(torch.cat([g.flatten().double() for g in gradients]).norm())


def limit(max_grad_norm, dtype=torch.float32):
    """The norm that a clipped example is scaled to (docs/engine.md, "Precision"); in float64 C, to 1e-13."""
    return max_grad_norm * (1 if dtype == torch.float64 else 1 - 1.144e-5)


def clipped_sum(gradients, max_grad_norm, clipping="flat"):
    """Each example's gradient times its factor, added up in float64."""
    total = [torch.zeros_like(g, dtype=torch.float64) for g in gradients[0]]
    for gradient in gradients:
        size = norm(gradient)
        if clipping == "flat":
            factor = 1.0 if size <= max_grad_norm else max_grad_norm / size
        else:
            factor = max_grad_norm / (size + 0.01)
        for into, part in zip(total, gradient, strict=True):
            into += factor * part.double()
    return total


def relative_error(found, expected):
    """Of a list of tensors as one vector."""
    a = torch.cat([t.flatten().double() for t in found])
    b = torch.cat([t.flatten().double() for t in expected])
    return float((a - b).norm() / b.norm().clamp(min=1e-30))
