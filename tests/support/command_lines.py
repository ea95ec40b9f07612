"""Command lines that tests run, so that no command and no option is documented without having been run.

A line is what stands after ``reticent``; ``# 4`` behind it is its exit code, if that is not 0. The lines of a part run
one after the other in one folder, which `tests/flows/test_flows_every_command.py` fills.
"""

from __future__ import annotations

import shlex

PARTS = {
    "looks": """
        schema
        status --json
        plan --json
        runs --json
        diff latest latest --config reticent.toml --show-names --json
        ledger --json
        adopt train {train} --config reticent.toml --json
        doctor --json
        report --json
        open --public --no-browser --json
        metrics --out reticent.prom
        inspect redacted --config reticent.toml --rows 2 --show-text --json
        show redacted --config reticent.toml --label NAME --private --page 1 --rows 2 --show-text --no-color
        show --doc 0 --json
        dedup-stats --top 2 --show-text --json
        dedup-filter corpus --out seen.bloom --config reticent.toml --json
        verify --repair --json
    """,
    "measures": """
        sample --json
        sample --plan --target gamma --bound 0.2 --confidence 0.9 --expected-rate 0.01 --assurance 0.7 \
            --design-effect 1.5 --units-per-sentence 2 --json
        review --status --reviewer ann --overlap 0.5 --json
        review --export reviews.jsonl --format jsonl
        review --import reviews.jsonl
        review --held --status # 3
        review --screening --status
        estimate --json
        estimate --counts counts.csv --confidence 0.9
    """,
    "accounts": """
        privacy epsilon --sample-rate 0.01 --noise-multiplier 1 --steps 100 --delta 1e-5 --relation replace_one --json
        privacy person --sample-rate 0.01 --noise-multiplier 1 --steps 100 --delta 1e-5 --records 4 --json
        privacy plan --people 300 --records 900 --median 2 --most 9 --epsilon 3 --delta 1e-5 --epochs 8 \
            --parameters 1000 --throughput 100 --out plan.svg --json
        privacy plan --records 500 --gradients 2000 --tokens 20000 --record-tokens 10 --hours 1 \
            --config reticent.toml # 2
        privacy calibrate --target-epsilon 3 --target-delta 1e-5 --sample-rate 0.01 --steps 100 \
            --relation add_or_remove_one --accountant rdp --json
        privacy confidentiality --epsilon 3 --delta 1e-5 --gamma 0.01 --delta2 0.001 --group-size 2 --json
        privacy amplify --epsilon 3 --delta 1e-5 --miss-rate 0.01 --gamma 0.02 --json
        privacy selection --sample-rate 0.01 --noise-multiplier 1 --steps 100 --delta 1e-5 --candidates 10 \
            --shape 1 --json
    """,
    "texts": """
        simulate customersim --dialogues 5 --seed 1 --out simulated --template-set B --dialogues-per-customer 3 --json
        deploy --init-auth prefect.env
        init new --input simulated --yes
        init newer --input simulated --yes --json
        init built-in --dialogues 5 --seed 2
        redact --policy high_entity,regex,names,keywords --model en_core_web_sm --language en \
            --conservative conservative --pattern TICKET=T-[0-9]{6} --names names.txt --keywords keywords.json \
            --rendering jft --workers 2 --no-stabilise --any-language --json mail.jsonl
        redact --policy names --names names.txt --replacement surrogate --surrogate-key key --surrogate-map map.jsonl \
            --surrogate-persons gendered --shift-dates 60 --consistent corpus mail.jsonl
        restore map.jsonl mail.jsonl
        evaluate-policy --policy regex,names,keywords --gold gold.jsonl --model en_core_web_sm --language en \
            --pattern TICKET=T-[0-9]{6} --names names.txt --keywords keywords.json --confidence 0.9 --workers 2 \
            --no-stabilise --any-language --json
        evaluate-policy --policy conservative --sentences --gold gold.jsonl
    """,
    "learns": """
        train-policy --data domains.jsonl --out classifier --base base --window 16 --overlap 8 --epochs 1 --seed 1 \
            --project reticent.toml --json
        redact --policy classifier --classifier classifier mail.jsonl
        evaluate-policy --policy classifier --classifier classifier --gold gold.jsonl
        train-detector --data gold.jsonl --out detector --kind encoder --base base --layers 1 --language en \
            --recall 0.5 --held-out 0.3 --epochs 1 --no-noise --no-names --seed 1 --project reticent.toml --json
        train-detector --reviews reticent.toml --out nothing # 3
        train-detector --gold reticent.toml --kind spacy --epochs 1 --out tagger
        redact --policy gliner --gliner none mail.jsonl # 2
        evaluate-policy --policy gliner --gliner none --gold gold.jsonl # 2
        redact --policy token_classifier --token-classifier detector mail.jsonl
        evaluate-policy --policy token_classifier --token-classifier detector --gold gold.jsonl
    """,
    "keeps": """
        forget night-01.jsonl --config reticent.toml --dry-run --json
        mirror --json
        sign --name Ada # 4
        sign --name Ada --json
        export model --out my-model --config reticent.toml --license apache-2.0 --json
        verify-release my-model --json
        verify-release my-model --key 00000000000000000000000000000000 # 5
        export redacted --out redacted
        gc --keep-runs 1 --dry-run --json
        ledger --acknowledge-copy "another site"
        retire --json
    """,
    "seals": """
        plan
        rotate-key --new-key-env NEXT --reencrypt --json
    """,
    "damaged": """
        ledger # 4
        ledger --acknowledge-damage "the disk failed" --json
    """,
    "runs": """
        run --only split --dry-run --json
        run --sample 50%
        run --json
        run --from report --force report --verify size --json
        synthesize --rows 20 --force synthesize_rows --json
        audit --force audit --json
        compare --methods crt,redacted --repetitions 1 --set train.epochs=1 --json
        demo tour --dialogues 60 --json
    """,
}
"""By part, the lines that run."""

ELSEWHERE = {
    "review --adjudicate --port --browser": "tests/flows/test_flows_every_command.py",
    "join": "tests/stages/test_stage_train_machines.py",
    "deploy --cron --timezone --json --notify": "tests/flows/test_flows_deployment.py",
    "deploy --pool --name": "tests/flows/test_flows_port.py",
    "audit --settle": "tests/flows/test_flows_audit_alarm.py",
    "ledger --retired": "tests/flows/test_flows_operations.py",
    "rotate-key --new-key-file": "tests/encryption/test_encryption_end_to_end.py",
}
"""Commands and options that need a server of their own, another machine or a browser, and the tests that run them."""


def lines(part: str) -> list[tuple[list[str], int]]:
    """The words of each line of a part, and the exit code that it is to have."""
    found = []
    for line in PARTS[part].replace("\\\n", " ").strip().splitlines():
        words, _, code = line.partition(" # ")
        found.append((shlex.split(words), int(code or 0)))
    return found
