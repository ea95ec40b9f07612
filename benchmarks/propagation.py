"""The gain and cost of `propagate` beside the policies of `reticent init`: stability, gamma, masked text.

    python benchmarks/propagation.py --data-dir FOLDER [--dialogues 300] [--seed 0] [--out FILE]

Dialogues of MultiDoGO's three domains (test part, FOLDER/multidogo) and of the built-in simulator, and a third as many
mails (`pii_mails`), are redacted without and with it. Every caught secret is masked by hand, alone, in its characters
and in its whole tokens, and the whole document is redacted again by the functions that the stage `stability` uses. A
secret is unstable where its own sentence changes, and unstable elsewhere where another sentence of its document does:
with one of the latter among the reviewed ones a claim is refused altogether, so that is what decides. gamma counts a
secret that is not masked, or unstable in either way.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from common import RESULTS, command_line, write_json
from data_sets import simulated
from pii_mails import mails
from stability import Corpus, Labelled, Row, Secret, conversations, redactor_of, requests_of, rows_of

from flows.commands.init import OWN_POLICIES
from pipelines.corpus.split import Splitter
from pipelines.miss_rate.stability import Scope, SecretPiece, judge_all
from pipelines.policies.judging.apply import Redactor
from pipelines.policies.judging.judge import Request
from pipelines.policies.judging.tables import redacted, redacted_row
from pipelines.policies.redact import token_mask


def measure(rows: Sequence[Row], redactor: Redactor, splitter: Splitter) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    scopes: list[Scope] = []
    for _, group in groupby(rows, key=lambda row: row.columns["doc_id"]):
        document = list(group)
        verdicts = redactor.judge(requests_of(document), [document[0].columns["doc_id"]] * len(document))
        columns, secrets = [], dict[Secret, list[SecretPiece]]()
        caught: dict[Secret, bool] = {}
        for number, (row, verdict) in enumerate(zip(document, verdicts, strict=True)):
            columns.append(row.columns | redacted_row(row.columns, verdict, collapse=True))
            if row.columns["is_duplicate"]:
                continue
            mask = token_mask(len(row.columns["token_starts"]), verdict.spans)
            sensitive = {token for piece, _ in row.pieces for token in range(piece.start_token, piece.end_token)}
            counts.update(tokens=len(mask), masked=sum(mask), sensitive=len(sensitive))
            counts["found"] += sum(mask[token] for token in sensitive)
            for piece, secret in row.pieces:
                secrets.setdefault(secret, []).append(piece._replace(row=number))
                caught[secret] = caught.get(secret, True) and all(mask[piece.start_token : piece.end_token])
        counts.update(secrets=len(secrets), unmasked=len(secrets) - sum(caught.values()))
        scopes += [Scope(columns, [pieces]) for secret, pieces in secrets.items() if caught[secret]]

    def redact(documents: Sequence[Sequence[Request]]) -> list[list[str]]:
        names = [str(number) for number, of_one in enumerate(documents) for _ in of_one]
        judged = iter(redactor.judge([request for of_one in documents for request in of_one], names))
        return [
            [redacted(r.text, r.starts, r.ends, next(judged), collapse=True)[0] for r in of_one] for of_one in documents
        ]

    for _, verdicts in judge_all(scopes, redact, splitter.tokens):
        counts.update(verdict.reason for verdict in verdicts)
    unstable = counts["sentence"] + counts["length"] + counts["document"]
    return {
        "num_secrets": counts["secrets"],
        "token_recall": round(counts["found"] / counts["sensitive"], 4),
        "token_precision": round(counts["found"] / counts["masked"], 4),
        "masked_tokens": round(counts["masked"] / counts["tokens"], 4),
        "num_unmasked": counts["unmasked"],
        "num_unstable": counts["sentence"] + counts["length"],
        "num_unstable_elsewhere": counts["document"],
        "gamma": round((counts["unmasked"] + unstable) / counts["secrets"], 4),
    }


def main() -> None:
    parser = command_line(__doc__, data_dir=True, out=RESULTS / "propagation.json")
    parser.add_argument("--dialogues", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    corpora = {
        "MultiDoGO test": Corpus("turns", (), lambda: _spread(given.data_dir, given.dialogues)),
        "built-in simulator": Corpus("auto", (), lambda: simulated(given.dialogues, given.seed)),
        "mails, made": Corpus("rules", (), lambda: mails("B", given.dialogues // 3, given.seed)),
    }
    document: dict[str, Any] = {
        "schema_version": 1,
        "command": "python benchmarks/propagation.py --data-dir FOLDER "
        f"--dialogues {given.dialogues} --seed {given.seed}",
        "policies": list(OWN_POLICIES),
        "load_average_at_start": round(os.getloadavg()[0], 2),
        "corpora": {},
    }
    plain = tuple(name for name in OWN_POLICIES if name != "propagate")
    for name, corpus in corpora.items():
        splitter = Splitter(mode=corpus.mode, max_sentence_tokens=256, cut_fields=True)
        rows = rows_of(corpus, splitter)
        document["corpora"][name] = {
            "without": measure(rows, redactor_of(plain, True), splitter),
            "with": measure(rows, redactor_of((*plain, "propagate"), True), splitter),
        }
    print(write_json(given.out, document))


def _spread(folder: Path, number: int) -> Iterable[Labelled]:
    """Returns every so many of the dialogues, so that all three domains occur."""
    found = list(conversations(folder / "multidogo"))
    return found[:: max(1, len(found) // number)][:number]


if __name__ == "__main__":
    main()
