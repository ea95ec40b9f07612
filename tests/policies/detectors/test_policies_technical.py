"""Technical texts, in which the default masks nothing, and texts that only look alike."""

from __future__ import annotations

import pytest
from support.default_masks import check_linear, masked

from pipelines.policies.english.technical import technical_ranges

_CLEAN = {
    "version": ["Upgraded from 4.19.0.2 to 5.1.0.7 without trouble.", "Kernel 6.1.0-18-amd64, glibc 2.36-9"],
    "hash": [
        "git checkout 3f2a9bc -- src/main.rs",
        "requests==2.31.0 --hash=sha256:58cd2187c01e70e6e26505bca751777aa9f2ee0b7f4300988b709f44e013003f",
    ],
    "uuid": ["The nil UUID is 00000000-0000-0000-0000-000000000000.", "OID 1.2.840.113549.1.1.11 is an algorithm"],
    "number": [
        "max-age=31536000; includeSubDomains",
        "mtime=1755302400 size=348271 mode=0644",
        "accuracy: 0.9182736450192837 (std 0.0123456789)",
        "Exports rose by +12 000 000 last year.",
        "A total of 1 250 000 records were migrated.",
    ],
    "error": ["The installer stopped with 0x80070643 and wrote a log.", "ORA-01017: logon denied"],
    "algorithm": ["ECDHE-RSA-AES256-GCM-SHA384, TLS 1.3, secp256r1", "Use X25519 and ChaCha20-Poly1305."],
    "dotted": [
        "tf.keras.layers.Dense is slower than torch.nn.Linear here",
        '{ "key": "ctrl+shift+p", "command": "workbench.action.showCommands" }',
        "Edit CMakeLists.txt, build.gradle and index.html.",
    ],
    "double colon": ["use strict;\nmy $res = Some::Module->new;", "tests/test_api.py::test_login PASSED [ 50%]"],
    "header": ["first_name,last_name,email,phone,date_of_birth,ssn", "| id | user_name | created_at | is_active |"],
    "option": ["--token TOKEN     token for the API (default: read from the environment)"],
    "password": ["psql: FATAL: authentication failed (using password: NO)"],
    "log": ["08:14:22.113 WARN  cache: evicted 1204 entries", "2024-05-01T08:00:00Z INFO  worker started"],
    "program": [
        "from thinc.api import Model, Ops",
        "# Avoid emitting a traceback on interrupt",
        "plugin is broken, on kernels not supporting SO_PEERGROUPS",
    ],
    "tools": ["Maven and Gradle both run on Jenkins, Julia does not."],
    "kinds": ["Apple, Peach and Cherry are the three flavours."],
    "parts": ["SKU AB-1204 replaces AB-1198; 40 pcs in stock", "Use the M8x40 screw."],
    "page": ["See https://docs.python.org/3/library/re.html#re.match for details."],
    "heading": ["CHAPTER 4: GENERAL DESIGN AND REMARKS"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in _CLEAN.items() for text in texts])
def test_technical_text_has_no_mask(kind: str, text: str) -> None:
    assert masked(text) == "", kind


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("The server is at 84.17.32.9 now.", "84.17.32.9"),
        ("firmware of the camera at 84.17.32.9", "84.17.32.9"),
        ("password: 5f4dcc3b5aa765d61d8327deb882cf99", "5f4dcc3b5aa765d61d8327deb882cf99"),
        ("token 9fceb02d0ae598e95dc970b74767f193", "9fceb02d0ae598e95dc970b74767f193"),
        ("My uuid is 4f1c2b3a-9d8e-4c7b-a6f5-0123456789ab.", "4f1c2b3a"),
        ("6.5243793057, 3.3792057812", "6.5243793057"),
        ("RUT 12.345.678-5", "12.345.678-5"),
        ("Hola, mi rut es 15.482.377-k y no puedo entrar", "15.482.377-k"),
        ("Regarding Q6R01P4: where is it?", "Q6R01P4"),
        ("pw is still Arm1962!, nothing changed", "Arm1962!"),
        ("account 12 500 000 was closed", "500 000"),
        ("Reach me at 1755302400", "1755302400"),
        ("MRN X458S637 is on the list", "X458S637"),
        ("/home/jhollis/src/main.py", "jhollis"),
        ("jhollis_cv.pdf", "jhollis_cv"),
        ("https://www.jhollis.dev/about", "jhollis"),
        ("my handle is goose_patrol", "goose_patrol"),
        ("goose_patrol: anyone up for ranked", "goose_patrol"),
        ("--password Tr0ub4dor  the old one", "Tr0ub4dor"),
        ("commit by Anna Keller in 9fceb02", "Anna Keller"),
        ("Julia fixed the python script", "Julia"),
        ("Hollis,Peregrine,Leeds", "Peregrine"),
        ("Order 4471-220 of bracket B43", "4471-220"),
    ],
)
def test_a_text_that_looks_alike_keeps_its_mask(text: str, secret: str) -> None:
    assert secret in masked(text)


@pytest.mark.parametrize("piece", ["a.", "a_b::", "1.0-", "0.1234 ", "/a", "a,b,", "sha256:", "deadbee1", "http://a."])
def test_time_is_linear(piece: str) -> None:
    check_linear(technical_ranges, "commit ", piece)
