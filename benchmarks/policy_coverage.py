"""Share of WikiText-2 tokens that each level masks, beside the paper's (Just Fine-tune Twice, Table 2).

    python benchmarks/policy_coverage.py --data-dir FOLDER [--lines 400]

Reads the first non-empty lines of FOLDER/wikitext2/wiki.valid.raw, each cut into sentences as the split stage does. The
paper's figures are of the training file, of lines not cut into sentences, and of an older model; a few articles differ
from it by several hundredths.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pipelines.corpus.split import Splitter
from pipelines.policies.apply import Redactor, RedactorSpec
from pipelines.policies.judging import Request

PAPER = {"low_entity": 0.113, "high_entity": 0.164, "low_contextual": 0.348, "high_contextual": 0.45}
CODE = {"jft_code_low": PAPER["low_contextual"], "jft_code": PAPER["high_contextual"]}


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=400)
    options = parser.parse_args()
    text = (options.data_dir / "wikitext2" / "wiki.valid.raw").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.strip()][: options.lines]
    splitter = Splitter(mode="rules", max_sentence_tokens=256)
    requests = [Request(s.text, s.token_starts, s.token_ends) for sentences in splitter.split(lines) for s in sentences]
    levels = {**PAPER, **CODE}
    redactor = Redactor.from_spec(RedactorSpec(policies=("digits",), observed=tuple(levels)))
    verdicts = redactor.judge(requests)
    num_tokens = sum(len(request.starts) for request in requests)
    ours = {level: sum(dict(v.observed)[level] for v in verdicts) / num_tokens for level in levels}
    rows = {level: {"ours": round(ours[level], 3), "paper": paper} for level, paper in levels.items()}
    print(json.dumps({"num_lines": len(lines), "num_tokens": num_tokens, "coverage": rows}, indent=1))


if __name__ == "__main__":
    main()
