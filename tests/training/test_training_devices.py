"""Precisions that a device cannot run are refused with what to do."""

import subprocess
import sys

import pytest
import torch
from support import child_environment

from pipelines.errors import ConfigError
from pipelines.training.devices import attention_on, autocast

CPU = torch.device("cpu")


def fail(said, dtype):
    with autocast(CPU, dtype):
        raise RuntimeError(said)


def test_a_layer_without_a_kernel_in_bfloat16_is_told_with_what_to_do():
    with pytest.raises(ConfigError, match=r"Set runtime\.dtype = 'float32'"):
        fail("could not create a primitive descriptor for the LSTM forward propagation primitive", "bfloat16")
    for said, dtype in (("another error", "bfloat16"), ("could not create a primitive", "float32")):
        with pytest.raises(RuntimeError, match=said):
            fail(said, dtype)


def test_bfloat16_is_left_behind_after_the_forward_pass():
    with autocast(CPU, "bfloat16"):
        assert torch.nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == torch.bfloat16
    for dtype in ("auto", "float32"):
        with autocast(CPU, dtype):
            assert torch.nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == torch.float32


@pytest.mark.slow
def test_a_processor_without_avx_512_has_no_lstm_in_bfloat16():
    """What oneDNN says is still what is looked for."""
    code = """
import torch
from pipelines.errors import ConfigError
from pipelines.training.devices import autocast

try:
    with autocast(torch.device("cpu"), "bfloat16"):
        torch.nn.LSTM(2, 2)(torch.zeros(1, 1, 2))
except ConfigError as error:
    print(error)
"""
    environment = child_environment(ONEDNN_MAX_CPU_ISA="AVX2")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "runtime.dtype = 'float32'" in done.stdout


def test_attention_is_fused_on_a_gpu_and_as_ever_on_a_cpu(patch):
    patch(torch.cuda, "is_available", lambda: True)
    assert attention_on("auto") == attention_on("cuda") == "sdpa"
    assert attention_on("cpu") == "eager"
