"""Freed memory stays in the process for the next step, also outside the training stage."""

import ctypes
import os
import subprocess
import sys

import pytest

# A block of 16 MB, which glibc takes from the kernel, and gives back, unless larger ones were freed before.
MEASURED = """
import ctypes, sys, torch
fields = "arena ordblks smblks hblks from_kernel usmblks fsmblks uordblks fordblks keepcost".split()
Info = type("Info", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_size_t) for name in fields]})
mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Info
if sys.argv[1] == "engine":
    from pipelines.dp.gradients import GradientEngine
    GradientEngine(torch.nn.Linear(2, 2), max_grad_norm=1.0)
before = mallinfo2().from_kernel
block = torch.empty(2**22)
print(mallinfo2().from_kernel - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="other C libraries have other rules")
def test_an_engine_makes_malloc_keep_the_memory_of_a_step() -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD"))}

    def bytes_from_kernel(what: str) -> int:
        command = [sys.executable, "-c", MEASURED, what]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return int(done.stdout)

    assert bytes_from_kernel("torch alone") >= 2**24
    assert bytes_from_kernel("engine") == 0
