"""Device and number of threads of a training."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Final, Literal

import torch

from pipelines.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """Returns the device of that name. ``auto`` is a GPU if there is one.

    Raises:
        ConfigError: this machine has no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise ConfigError(f"runtime.device: there is no device {name!r} here. Use auto or cpu") from None
    return device


def is_on_gpu(name: str) -> bool:
    """Returns true if that name of a device means a GPU here. Touches no GPU."""
    return name == "cuda" or (name == "auto" and torch.cuda.is_available())


def attention_on(name: str) -> Literal["eager", "sdpa"]:
    """Returns the kind of attention of a pretrained model on the device of that name.

    ``sdpa`` fuses attention, which saves time and memory on a GPU. It has no parameters and keeps examples apart, so
    gradients of single examples are those of ``eager``, which stays on a CPU: earlier models were trained with it.
    """
    return "sdpa" if is_on_gpu(name) else "eager"


def check_devices(name: str, num_processes: int) -> None:
    """Checks that every process of a training finds its own device. Touches no GPU.

    Raises:
        ConfigError: there are fewer GPUs than processes.
    """
    if is_on_gpu(name) and num_processes > torch.cuda.device_count():
        raise ConfigError(
            f"runtime.num_processes is {num_processes}, and this machine shows {torch.cuda.device_count()} GPUs "
            "(CUDA_VISIBLE_DEVICES narrows them). Set one process for each, or runtime.device = 'cpu'"
        )


def autocast(device: torch.device, dtype: str) -> contextlib.AbstractContextManager[object]:
    """Returns a context in which a forward pass runs in that precision. Weights stay in float32.

    The context raises a ConfigError if the processor cannot run a layer in bfloat16.

    Args:
        device: device of the model.
        dtype: ``float32``, ``bfloat16``, or ``auto``, which is bfloat16 on a GPU and float32 on a CPU.
    """
    if dtype == "bfloat16" or (dtype == "auto" and device.type == "cuda"):
        return _in_bfloat16(device)
    return contextlib.nullcontext()


_NO_KERNEL: Final = "could not create a primitive"
"""Message of oneDNN for a layer for which this processor has no instructions."""


@contextlib.contextmanager
def _in_bfloat16(device: torch.device) -> Iterator[None]:
    try:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            yield
    except RuntimeError as error:
        if device.type != "cpu" or _NO_KERNEL not in str(error):
            raise
        raise ConfigError(
            "runtime.dtype is bfloat16, and this processor cannot run a layer of the model in it (an LSTM needs "
            "AVX-512 or AMX). Set runtime.dtype = 'float32', or train on a GPU"
        ) from None


# With fewer parameters, a matrix product ends before a second thread wakes up. On a busy machine the threads then spend
# more time waiting for each other than computing (measured: 1.7 ms per example on one thread, 1.5 to 8 on two).
_ONE_THREAD_BELOW_PARAMETERS: Final = 5_000_000


@contextlib.contextmanager
def cpu_threads_for(num_parameters: int) -> Iterator[None]:
    """Runs the body on one CPU thread if the model is too small to gain from more."""
    before = torch.get_num_threads()
    if num_parameters < _ONE_THREAD_BELOW_PARAMETERS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_KEPT_BYTES: Final = 2**31 - 1
_LARGEST_HEAP_BLOCK: Final = 2**25  # the largest threshold that malloc accepts
_DEFAULT_THRESHOLD: Final = 2**17


@contextlib.contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Runs the body with a C library that keeps freed memory, up to 2 GB, for the next allocation.

    A training step frees all its activations, and the next step needs as much again. Giving the memory back in between
    costs up to a fifth of a step on a CPU, in page faults. The memory is given back after the body. Other C libraries
    than glibc stay unchanged.
    """
    library = ctypes.CDLL(None)
    if not (hasattr(library, "mallopt") and hasattr(library, "malloc_trim")):
        yield
        return
    library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    library.mallopt(_MMAP_THRESHOLD, _LARGEST_HEAP_BLOCK)
    try:
        yield
    finally:
        library.mallopt(_TRIM_THRESHOLD, _DEFAULT_THRESHOLD)
        library.mallopt(_MMAP_THRESHOLD, _DEFAULT_THRESHOLD)
        library.malloc_trim(0)
