"""Faults that real engines have had, put into ours for the length of a context. Each asserts that it was called."""

from contextlib import contextmanager

import torch
from audit_faults import LOOP, Fault, noise_every, noise_times, one_microbatch_unclipped, replaced

from pipelines.dp import clipping, optimizer


@contextmanager
def no_clipping(game):
    with replaced(clipping, "clip_factors", lambda _: lambda norms, *_: torch.ones_like(norms)):
        yield


@contextmanager
def tenth_of_the_noise(game):
    with replaced(optimizer, "add_noise", noise_times(0.1)):
        yield


@contextmanager
def noise_once_an_epoch(game):
    with replaced(optimizer, "add_noise", noise_every(game.plan.steps_per_epoch)):
        yield


def one_microbatch(game):
    fault: Fault = one_microbatch_unclipped()
    return fault.put_into(LOOP)


BROKEN = (no_clipping, tenth_of_the_noise, noise_once_an_epoch, one_microbatch)
