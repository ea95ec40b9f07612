"""Faults that real engines have had, put into ours for the length of a test."""

import torch

from pipelines.dp import clipping, optimizer


def _unclipped(norms, *_):
    return torch.ones_like(norms)


def no_clipping(monkeypatch, game):
    monkeypatch.setattr(clipping, "clip_factors", _unclipped)


def tenth_of_the_noise(monkeypatch, game):
    add_noise = optimizer.add_noise
    monkeypatch.setattr(optimizer, "add_noise", lambda sums, deviation, *rest: add_noise(sums, deviation / 10, *rest))


def noise_once_an_epoch(monkeypatch, game):
    add_noise, count = optimizer.add_noise, 0

    def sometimes(sums, deviation, *rest):
        nonlocal count
        count += 1
        add_noise(sums, 0.0 if count % game.plan.steps_per_epoch else deviation, *rest)

    monkeypatch.setattr(optimizer, "add_noise", sometimes)


def one_microbatch_unclipped(monkeypatch, game):
    """The first of each step, as where a hook is set after the first forward pass."""
    clip_factors, add_noise, is_first = clipping.clip_factors, optimizer.add_noise, True

    def factors(norms, *rest):
        nonlocal is_first
        found = _unclipped(norms) if is_first else clip_factors(norms, *rest)
        is_first = False
        return found

    def noise(*arguments):
        nonlocal is_first
        is_first = True
        add_noise(*arguments)

    monkeypatch.setattr(clipping, "clip_factors", factors)
    monkeypatch.setattr(optimizer, "add_noise", noise)


BROKEN = (no_clipping, tenth_of_the_noise, noise_once_an_epoch, one_microbatch_unclipped)
