"""Texts with entries of public lists, placeholders and set phrases have no mask. Texts that look alike keep theirs."""

from __future__ import annotations

import pytest
from support.default_masks import check_linear, masked

from pipelines.policies.english.code import documented_ranges
from pipelines.policies.english.public_entries import entries, set_phrases

_CLEAN = {
    "goods": [
        '{"sku": "TX-20445-B", "ean": 5901234123457, "qty": 3}',
        "Barcode 9780306406157 scans as a book, not as a toy.",
        "Article no. 7310532 fits the left hinge.",
    ],
    "codes": [
        "ICD-10-CM J45.909, CPT 94640 and HCPCS J7613 were billed together in the example.",
        "Map ATC code C09AA05 to RxNorm 35296.",
    ],
    "eponyms": [
        "Use the Dijkstra algorithm or the Floyd-Warshall method for dense graphs.",
        "Fit a Cox model, report the Hosmer-Lemeshow statistic and a Wilson interval.",
        "The Mann-Whitney test and the Benjamini-Hochberg procedure gave the same answer.",
        "Plot a Nyquist diagram and a Bode plot, then fit the Weibull parameters.",
        "The Michaelis-Menten constant was 1.2 mM at pH 7.4.",
    ],
    "drugs": ["Ibuprofen 400 mg 1-0-1 if needed, amoxicillin q8h x5d."],
    "letters": ["Cordialement,\nLe service client", "Met vriendelijke groet,\nde klantenservice"],
    "months": ["Can we do it in August, or do you prefer early September?"],
    "placeholders": [
        'api_key: "${VAULT_API_KEY:?set it first}"',
        'SECRET_KEY = os.environ["DJANGO_SECRET_KEY"]',
        "DB_PASSWORD: ${{ secrets.DB_PASSWORD }}",
        "secret: vault:kv/data/payments#api_token",
        "const token = process.env.SERVICE_TOKEN;",
        "login: { password: '••••••', retries: 3 }",
        "Hello, %FIRST_NAME%, thanks for the order.",
    ],
    "packages": [
        "pnpm add @vitejs/plugin-react@4.2.1 typescript@~5.3.3",
        "golang.org/x/sync v0.6.0 h1:5BMeUDZ7vkXGfEr1x9B4bRcTH4lpkTkpdh0T/J+qjbQ=",
        '{"left": "^4.1.2", "right": "3.22.41"}',
    ],
    "networks": ["Allow 10.0.0.0/8 and deny 0.0.0.0/0; the subnet mask is 255.255.240.0."],
    "dumps": ["0000020: de ad be ef 00 11 22 33 44 55 66 77 88 99 aa bb"],
    "patterns": ["Match dates with ^(19|20)\\d{2}-(0[1-9]|1[0-2])$ before parsing."],
    "progress": ["epoch 12/90 iter 400/1563 loss 0.4127 acc 91.3% lr 1e-3", "Throughput is 2400 req/s at p99 38 ms."],
    "decorators": [
        "@functools.wraps(inner)\ndef outer(x):\n    return inner(x)",
        "@dataclass\nclass Basket:\n    size: int",
    ],
    "options": ["ruff check --output_format=concise --exit_zero src"],
    "pages": [
        "Docs: https://werkzeug.readthedocs.io/en/latest/?badge=latest",
        "git clone https://github.com/python-pillow/image-samples",
    ],
    "copyright": ["# Copyright 2019-2024 The Borealis Project authors. All rights reserved."],
    "releases": ["## 2.4.1 (March 8th, 2021)\n- Fixes a crash of the parser"],
    "headings": ["Forename: ________ Surname: ________ Postcode: ________ Tel. (home): ________"],
    "tools": [
        "We moved from Puppet to Ansible, and dropped Ruby and Julia.",
        "Numba speeds up the loop of the kernel.",
    ],
    "programs": ["# the planner calls merge_sorted_runs twice", "XPath is used by the parser of the module."],
    "parts": ["Use a 4K7 resistor, the LM317T and a 1N4007 diode."],
    "hours": ["The lift is out of order between 02:00 and 04:00 UTC."],
    "fragments": ["The node id. of the tree is a random number."],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in _CLEAN.items() for text in texts])
def test_a_public_entry_has_no_mask(kind: str, text: str) -> None:
    assert masked(text) == "", kind


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Order 7310532 of Wanjiru Baker fits.", "7310532"),
        ("item 3: call 0171 8842 113 at once", "0171 8842 113"),
        ("ean: the card is 4111 1111 1111 1111", "4111 1111 1111 1111"),
        ("Patient Wanjiru Baker, ICD-10 J45.909", "Wanjiru Baker"),
        ("Mary Jones number is on the list", "Mary Jones"),
        ("She says the Hollis method hurt her.", "Hollis"),
        ("Dr Hollis method was praised", "Hollis"),
        ("He was born in August 1984.", "August 1984"),
        ("Ask for August Keller at the desk", "August Keller"),
        ("We met her in August, says Wanjiru Baker", "August"),
        ("password: ${DB_PASS:-Wint3rfell}", "Wint3rfell"),
        ("password = vaultkeeper/9fJb2Lm", "9fJb2Lm"),
        ("password: ****Wint3r", "Wint3r"),
        ("user: kwabena, password: '*******'", "kwabena"),
        ("write to wanjiru@4b.example-mail.net", "wanjiru@4b.example-mail.net"),
        ("npm whoami says @wanjiru", "@wanjiru"),
        ("Mit freundlichen Grüßen\nAnnegret Tiedemann", "Annegret Tiedemann"),
        ("Cordialement,\nSolène Garnier", "Solène Garnier"),
        ("reach the host at 10.0.4.17", "10.0.4.17"),
        ("call 06 12 34 56 78 today", "06 12 34 56 78"),
        ("@wanjiru can you look at it\n@hollis too", "@wanjiru"),
        ("curl --user wanjiru:Tr0ub4dor https://api.example.com", "Tr0ub4dor"),
        ("https://github.com/jhollis/notes", "jhollis"),
        ("https://keller.readthedocs.io/", "keller"),
        ("Copyright 2019 Annegret Tiedemann", "Annegret Tiedemann"),
        ("Surname: Tiedemann", "Tiedemann"),
        ("JSmith moved the module to the library", "JSmith"),
        ("McKinley broke the parser of the module", "McKinley"),
        ("Puppet, Ansible and Docker are new to Wanjiru Baker", "Wanjiru Baker"),
        ("flat 4B, 12 Kestrel Road", "12 Kestrel Road"),
        ("user kwabena left", "kwabena"),
        ("may texted june, and joy waved", "may"),
    ],
)
def test_a_text_that_looks_alike_keeps_its_mask(text: str, secret: str) -> None:
    assert secret in masked(text)


@pytest.mark.parametrize(
    "piece",
    ["Aa-", "Aa ", "ean 1-", "a/s ", "@a/", "--a_", "$A/", "{{ a:", "%a_", "00 a", "1.1 (", "Copyright 2019 a "],
)
def test_time_is_linear(piece: str) -> None:
    check_linear(lambda text: (*documented_ranges(text), *entries(text), *set_phrases(text)), "test ", piece)
