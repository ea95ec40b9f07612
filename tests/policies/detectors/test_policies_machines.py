"""Text of machines in which the default masks nothing, and texts that only look alike."""

from __future__ import annotations

import pytest
from support.default_masks import check_linear, masked

from pipelines.policies.english.machines import machine_ranges


@pytest.mark.parametrize(
    "text",
    [
        "trace 0b7f3c52-88de-4f0a-9c61-5d2e7a90b413 upstream timed out after 2 retries",
        "Parent hash: 0x7d1f0c9be2a3485f6071829304a5b6c7d8e9fa0b1c2d3e4f5061728394a5b6c7 at block height 17204433",
        "background: url(data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVQ=) repeat-x;",
        '<span class="css-9q7z3kd-Button-label MuiTab-root">open</span>',
        "Read 220 310 780 MiB/s on the three disks.",
        "3b1f2c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809  parser-0.9.3.tar.xz",
        "The report lists KRAS c.35G>A and p.G12D.",
        'REDIS_ALLOW_EMPTY_PASSWORD: "true"\nSESSION_LENGTH: 20',
        '"form.token.label": "Token", "form.token.placeholder": "Paste the token here"',
        "cache: { url: 'redis://worker:*****@cache/0' }",
        '"scale": "4.2130000000000005E-7"',
        "Then call DELETE /v2/items and check the status.",
        "%backup ALL=(root) NOPASSWD: /bin/systemctl stop postfix",
        "Replace L3 (2u2), it gets warm under load.",
        "Start ibuprofen 400 mg TID with food, stop if there is pain in the stomach.",
        "The shelf is 40 cm deep, and both boards are 2 m long.",
        "FROM alpine:3.19\nRUN apk add --no-cache nginx\nEXPOSE 9443",
        "ran 12k in 61:40 today, what a day for the whole club",
    ],
)
def test_text_of_machines_has_no_mask(text: str) -> None:
    assert masked(text) == ""


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("session 0b7f3c52-88de-4f0a-9c61-5d2e7a90b413 belongs to her", "0b7f3c52"),
        ("private key 0x7d1f0c9be2a3485f6071829304a5b6c7d8e9fa0b1c2d3e4f5061728394a5b6c7", "0x7d1f0c9b"),
        ('<span class="row" title="Yvonne Marchetti">', "Yvonne Marchetti"),
        ("call me on 415 550 2671 please", "415 550 2671"),
        ("yvonne_marchetti-1.0.tar.gz", "yvonne_marchetti"),
        ("password: yes!Tulip88", "yes!Tulip88"),
        ("Take 400 mg SIOBHAN and rest", "SIOBHAN"),
        ("My pin is 9443, keep it", "9443"),
        ("Born at 41 Deep Lane, Ripon", "41 Deep Lane"),
        ('"form.password.label": "Trumpet88x"', "Trumpet88x"),
        ("cache: { url: 'redis://marchetti:*****@cache/0' }", "marchetti"),
        ("cache: { url: 'redis://worker:Trumpet88x@cache/0' }", "Trumpet88x"),
    ],
)
def test_a_text_that_looks_alike_keeps_its_mask(text: str, secret: str) -> None:
    assert secret in masked(text)


@pytest.mark.parametrize(
    "piece",
    ["1 ", "a-", "class='a ", "c.1", "p.A1", "block ", "allow_", '"a.', "a.b-", "data:image/a;base64,", "a://a:"],
)
def test_time_is_linear(piece: str) -> None:
    check_linear(
        lambda text: machine_ranges(text, text.lower(), has_digit=True), ";base64, c. p. gas class ':*** ", piece
    )
