"""Finds keys, tokens, hexadecimal strings and addresses of machines."""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find, find_all
from pipelines.policies.detectors.first_pass import holds, kind

_PREFIXED: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ANVA|ABIA|ACCA)[A-Z0-9]{12,}"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"  # GitHub, GitLab
    r"|xox[abeoprs]-[\w-]{8,}|xapp-[\w-]{8,}"  # Slack
    r"|(?:sk|pk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{12,}|sk-[\w-]{16,}"  # Stripe, OpenAI, Anthropic
    r"|AIza[\w-]{20,}|ya29\.[\w-]{10,}|GOCSPX-[\w-]{10,}"  # Google
    r"|SG\.[\w-]{10,}\.[\w-]{10,}|key-[0-9a-f]{24,}|(?:AC|SK)[0-9a-f]{32}"  # SendGrid, Mailgun, Twilio
    r"|(?:hf|npm|dckr_pat|shpat|shpss|dop_v1|lin_api|ntn|figd|sq0atp|sq0csp|EAAC)[_-][\w-]{16,}|pypi-[\w-]{16,}"
    r"|eyJ[\w-]{8,}(?:\.[\w-]{4,}){1,4}"  # a JSON Web Token (RFC 7519)
    r"|[MNO][\w-]{23}\.[\w-]{6}\.[\w-]{27,}|\d{8,10}:AA[\w-]{32,}"  # Discord, Telegram
    r"|ssh-(?:rsa|ed25519|dss) [A-Za-z0-9+/=]{20,}|ecdsa-sha2-\S{1,20} [A-Za-z0-9+/=]{20,}"
    r")"
)
_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{1,40}-----(?:[^-]|-(?!----END ))*(?:-----END [A-Z0-9 ]{1,40}-----)?")
_AUTHORIZATION: Final = re.compile(
    r"(?<!\w)(?:bearer|basic|authorization|x-api-key|api[ _-]?key|api[ _-]?token|"
    r"(?:access|auth|refresh|secret|session)[ _-]?(?:token|key)|client[ _-]?secret|private[ _-]?key|secret)"
    r"(?: is\b| was\b)?['\"]?[ \t]{0,3}[:=]?[ \t]{0,3}"
    r"(?:(?:bearer|basic|token)[ \t]{1,3})?['\"]?([^\s'\"<>,;]{8,})",
    re.I,
)
_IN_ADDRESS: Final = re.compile(
    r"(?<=://)[^\s/@:]{1,64}:[^\s/@]{1,64}(?=@)"
    r"|(?<=[?&])(?:key|token|sig|code|auth|password|pwd|secret|session|sid|api_key|access_token)"
    r"=[^\s&#]{4,}",
    re.I,
)
_UUID: Final = re.compile(
    r"(?<![0-9A-Za-z])[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}(?![0-9A-Za-z])", re.I
)
_HEX: Final = re.compile(r"(?<![0-9A-Za-z])(?:0x[0-9a-f]{4,}|[0-9a-f]{8,})(?![0-9A-Za-z])", re.I)
_BLOB: Final = re.compile(r"(?<![\w+/=.-])[\w+/-]{20,}={0,2}(?![\w+/=-])")
_IPV4: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?(?::\d{1,5})?(?![\w]|\.\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{2,39}(?:\d{1,3}(?:\.\d{1,3}){3})?(?![\w])")
_MAC: Final = re.compile(
    r"(?<![0-9A-Za-z:-])(?:[0-9a-f]{2}[:-](?:[0-9a-f]{2}[:-]){4,6}[0-9a-f]{2}|[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})"
    r"(?![0-9A-Za-z])",
    re.I,
)
_MIN_BITS_PER_CHARACTER: Final = 3.5
"""Entropy of a key's characters. Prose in one word ("honorificabilitudinitatibus") has less."""

_MIN_KEY: Final = 8
_HEX_WORD: Final = kind(lambda word: re.search("0x[0-9a-f]{4}|[0-9a-f]{8}", word) is not None)
SHORTEST_KEY: Final = 16
"""Characters without white space in every key that `find_keys` finds, for a fast first test."""


def find_keys(text: str) -> Iterator[Find]:
    """Yields keys and tokens, by their prefix, their place in an address, or their randomness."""
    yield from find_all(text, "SECRET_KEY", _PREFIXED, _IN_ADDRESS)
    for match in _BLOB.finditer(text):
        if _is_random(match[0]):
            yield *match.span(), "SECRET_KEY"
    if "-----BEGIN" in text:
        yield from find_all(text, "SECRET_KEY", _PEM)


def find_announced_keys(text: str) -> Iterator[Find]:
    """Yields the values after "Bearer", "api key:" and "client_secret="."""
    for match in _AUTHORIZATION.finditer(text):
        value = match[1].rstrip(".!?)")
        if len(value) >= _MIN_KEY and any(map(str.isdigit, value)):
            yield match.start(1), match.start(1) + len(value), "SECRET_KEY"


def find_hexadecimal(text: str) -> Iterator[Find]:
    """Yields UUIDs, and hexadecimal strings with digits and letters."""
    if not holds(text, _HEX_WORD):
        return
    yield from find_all(text, "CODE", _UUID)
    for match in _HEX.finditer(text):
        if match[0][:2].lower() == "0x" or not (match[0].isdigit() or match[0].isalpha()):
            yield *match.span(), "CODE"


def find_machines(text: str) -> Iterator[Find]:
    """Yields IP addresses of both versions, and MAC addresses."""
    dots, colons = text.count("."), text.count(":")
    for match in _IPV4.finditer(text) if dots >= 3 else ():
        if all(int(part) < 256 for part in re.split("[/:]", match[0])[0].split(".")):
            yield *match.span(), "IP_ADDRESS"
    for match in _IPV6.finditer(text) if colons >= 2 else ():
        if match[0].count(":") >= 2 and _is_ipv6(match[0].rstrip(":") if not match[0].endswith("::") else match[0]):
            yield *match.span(), "IP_ADDRESS"
    if colons + text.count("-") >= 5 or dots >= 2:
        yield from find_all(text, "MAC_ADDRESS", _MAC)


def _is_ipv6(written: str) -> bool:
    try:
        ipaddress.IPv6Address(written)
    except ValueError:
        return False
    return any(c.isalnum() for c in written)


def _is_random(word: str) -> bool:
    """Returns true if a long string mixes digits with letters and has a high entropy."""
    if not any(map(str.isdigit, word)) or not any(map(str.isalpha, word)):
        return False
    if "-" in word and not any(c.isupper() for c in word):
        return False  # a title in an address: how-to-bake-a-cake-in-20-minutes
    counts = Counter(word).values()
    bits = -sum(count / len(word) * math.log2(count / len(word)) for count in counts)
    return bits >= _MIN_BITS_PER_CHARACTER
