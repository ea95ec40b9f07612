"""The share of WikiText-2 tokens that each level masks, beside the paper's (Just Fine-tune Twice, Table 2), and why.

    python benchmarks/policy_coverage.py --data-dir FOLDER [--lines 1000] [--seed 0]

The paper's figures are of the training file. A sample of its lines is counted as this pipeline counts (sentences,
spaCy's tokens, before collapsing), and then with one thing changed at a time: another sample (the first lines of the
validation file, a handful of articles), whole lines instead of sentences, rare words written <unk> as in the tokenised
release, GPT-2's tokens instead of words, and masks counted after collapsing.

Every level reads the original text once, as the paper's do and as ``redact.also_levels`` in a run. A run that masks
with a level stabilises it (``redact.stabilise``) and masks somewhat more.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence

from common import command_line
from data_sets import requests_of, wikitext
from tokenizers import Tokenizer

from pipelines.corpus.split import Splitter
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.judge import Request
from pipelines.policies.redact import masked_runs, token_mask

PAPER = {"low_entity": 0.113, "high_entity": 0.164, "low_contextual": 0.348, "high_contextual": 0.45}
CODE = {"jft_code_low": PAPER["low_contextual"], "jft_code": PAPER["high_contextual"]}
LEVELS = {**PAPER, **CODE}
UNKNOWN_BELOW = 3
"""A word rarer than this in the training file is <unk> in the tokenised release of WikiText-2."""


SENTENCES = Splitter(mode="rules", max_sentence_tokens=256)
LINES = Splitter(mode="turns", max_sentence_tokens=10**6)


def coverage(requests: Sequence[Request]) -> dict[str, float]:
    """Returns the masked tokens of each level, as a share of all tokens."""
    redactor = Redactor.from_spec(RedactorSpec(policies=("digits",), observed=tuple(LEVELS)))
    verdicts = redactor.judge(requests)
    num_tokens = sum(len(request.starts) for request in requests)
    return {level: sum(dict(v.observed)[level] for v in verdicts) / num_tokens for level in LEVELS}


def other_counts(requests: Sequence[Request], level: str, tokenizer: Tokenizer) -> dict[str, float]:
    """Returns the same masks as shares of GPT-2's tokens, and of the words that are left when runs are collapsed."""
    redactor = Redactor.from_spec(RedactorSpec(policies=(level,)))
    num_masked = num_pieces = num_runs = num_left = 0
    for request, verdict in zip(requests, redactor.judge(requests), strict=True):
        mask = token_mask(len(request.starts), verdict.spans)
        hidden = bytearray(len(request.text))
        for start, end, is_masked in zip(request.starts, request.ends, mask, strict=True):
            hidden[start:end] = bytes([is_masked]) * (end - start)
        offsets = tokenizer.encode(request.text).offsets
        num_pieces += len(offsets)
        num_masked += sum(any(hidden[start:end]) for start, end in offsets)
        num_runs += len(masked_runs(request.text, request.starts, request.ends, mask))
        num_left += len(mask) - sum(mask)
    return {"bpe": num_masked / num_pieces, "collapsed": num_runs / (num_runs + num_left)}


def main() -> None:
    parser = command_line(__doc__, data_dir=True)
    parser.add_argument("--lines", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample of lines")
    options = parser.parse_args()
    train, valid = (wikitext(options.data_dir, part, headings=True) for part in ("train", "valid"))
    rarity = Counter(word for line in train for word in line.split())
    sample = random.Random(options.seed).sample(train, options.lines)
    no_unknown = [re.sub(r"\S+", lambda m: m[0] if rarity[m[0]] >= UNKNOWN_BELOW else "<unk>", line) for line in sample]
    sentences = requests_of(sample, SENTENCES)
    tokenizer = Tokenizer.from_file(str(options.data_dir / "gpt2_tokenizer" / "tokenizer.json"))
    others = {level: other_counts(sentences, level, tokenizer) for level in LEVELS}
    columns = {
        "paper": LEVELS,
        "train_sample": coverage(sentences),
        "valid_first_400_lines": coverage(requests_of(valid[:400], SENTENCES)),
        "whole_lines": coverage(requests_of(sample, LINES)),
        "with_unk": coverage(requests_of(no_unknown, SENTENCES)),
        "gpt2_tokens": {level: counts["bpe"] for level, counts in others.items()},
        "after_collapsing": {level: counts["collapsed"] for level, counts in others.items()},
    }
    table = {level: {name: round(column[level], 3) for name, column in columns.items()} for level in LEVELS}
    num_tokens = sum(len(request.starts) for request in sentences)
    print(json.dumps({"num_lines": len(sample), "num_tokens": num_tokens, "coverage": table}, indent=1))


if __name__ == "__main__":
    main()
