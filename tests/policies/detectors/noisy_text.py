"""Noisy sentences with labelled secrets, made from the sets in ``noisy/``, for measuring policies.

A set is a TOML file: frames with slots, plain sentences, patterns of values by kind, and the kinds of noise. No two
sets share a frame or a name. Names and places are written there and not taken from Faker, whose lists the policies
read. Each file says whether it was looked at when a policy was changed.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

SETS = ("A", "B", "C", "D", "E")

Gold = list[tuple[int, int, str]]
_SLOT = re.compile(r"\{([^{}]+)\}")
_ALPHABETS = {
    "d": "0123456789",
    "l": "abcdefghkmnpqrstuvwxyz",
    "u": "ABCDEFGHJKLMNPQRSTUVWXYZ",
    "x": "0123456789abcdef",
}
_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_BELOW_TWENTY = [*_DIGITS, "ten", "eleven", "twelve", *(f"{stem}teen" for stem in ("thir", "four", "fif", "six"))]
_BELOW_TWENTY += [f"{stem}teen" for stem in ("seven", "eigh", "nine")]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NEXT_KEYS = dict(zip("qwertyuiopasdfghjklzxcvbnm", "wqeytruopisafdhgkljxzvcnbn", strict=True))
_SCANNED = {"l": "1", "o": "0", "m": "rn", "e": "c", "s": "5", "i": "!", "0": "O", "1": "l", "5": "S"}


def read_set(which: str) -> dict[str, dict[str, list[str]]]:
    """A set: under ``texts`` its frames and plain sentences, under ``values`` its patterns by kind.

    Args:
        which: one of `SETS`.
    """
    made = tomllib.loads((Path(__file__).parent / "noisy" / f"{which.lower()}.toml").read_text(encoding="utf-8"))
    return {
        "texts": {key: made[key].strip().splitlines() for key in ("secret", "plain")},
        "values": {
            kind: [" ".join(item.split()) for item in listed.split("|")] for kind, listed in made["values"].items()
        },
        "styles": {"noise": made["noise"], "titled": made["titled"]},
    }


def noisy_sentences(which: str, number: int, seed: int) -> Iterator[tuple[str, Gold]]:
    """Sentences with their secrets ``(start, end, kind)``, three in four with one; none has a line break.

    Args:
        which: one of `SETS`.
        number: how many.
        seed: of all choices.
    """
    made = read_set(which)
    rng = random.Random(f"{which}{seed}")
    frames, plain = made["texts"]["secret"], made["texts"]["plain"]
    for i in range(number):
        noise = rng.choice(made["styles"]["noise"])
        if i % 4 == 3:
            yield _noisy(rng, rng.choice(plain), noise), []
            continue
        frame = frames[i % len(frames)] if i < len(frames) else rng.choice(frames)
        text, gold, at = "", [], 0
        for slot in _SLOT.finditer(frame):
            text += _noisy(rng, frame[at : slot.start()], noise)
            value = _expanded(rng, slot[0], made["values"])
            value = value.title() if slot[1] in made["styles"]["titled"] and rng.random() < 0.5 else value
            value = _noisy(rng, value, noise).strip()
            gold.append((len(text), len(text) + len(value), slot[1]))
            text, at = text + value, slot.end()
        yield text + _noisy(rng, frame[at:], noise), gold


def _expanded(rng: random.Random, pattern: str, values: dict[str, list[str]]) -> str:
    """A pattern with its slots filled: other kinds, and the codes of `_written`."""

    def fill(slot: re.Match[str]) -> str:
        if slot[1] in values:
            return _expanded(rng, rng.choice(values[slot[1]]), values)
        return _written(rng, slot[1])

    return _SLOT.sub(fill, pattern)


def _written(rng: random.Random, code: str) -> str:
    """``d3``: three digits; ``l``, ``u``, ``x``: letters or hex digits; ``n3-90``: a number, ``w3-90``: in words;
    ``s4 oh``: four digits said one by one, some zeros by that word."""
    sizes, _, zero = code[1:].partition(" ")
    first, last = int(sizes.partition("-")[0]), int(sizes.rpartition("-")[2])
    if code[0] in _ALPHABETS:
        return "".join(rng.choice(_ALPHABETS[code[0]]) for _ in range(first))
    if code[0] == "s":
        digits = (rng.randrange(10) for _ in range(first))
        return " ".join(rng.choice([zero, "zero"]) if digit == 0 else _DIGITS[digit] for digit in digits)
    number = rng.randrange(first, last + 1)
    return str(number) if code[0] == "n" else _in_words(number)


def _in_words(number: int) -> str:
    """A number below a hundred."""
    if number < 20:
        return _BELOW_TWENTY[number]
    return _TENS[number // 10 - 2] + (f" {_BELOW_TWENTY[number % 10]}" if number % 10 else "")


def _noisy(rng: random.Random, text: str, noise: str) -> str:
    """A piece of a sentence with noise of one kind.

    Raises:
        ValueError: there is no such kind.
    """
    match noise:
        case "none":
            return text
        case "lower" | "upper" | "title":
            return str(getattr(text, noise)())
        case "bare":  # no punctuation between words, none of it at the ends
            return re.sub(r"[^\w\s@#$€£]+(?=\s|$)|(?<=\s)[^\w\s@#$€£+]+", "", text)
        case "emoji":
            return re.sub(r" $", rng.choice([" ", " 😂 ", " 🙏 ", " ❤ "]), text)
    letters = list(re.finditer(r"(?<=\w)[a-z](?=\w)", text) if noise != "scan" else re.finditer("[a-z015]", text))
    if not letters or rng.random() < 0.3:
        return text
    chosen = rng.choice(letters)
    at, letter = chosen.start(), chosen[0]
    match noise:
        case "typo":  # a letter twice, dropped, or swapped with the next
            put = rng.choice([letter * 2 + text[at + 1], text[at + 1], text[at + 1] + letter])
            return text[:at] + put + text[at + 2 :]
        case "keyboard":
            return text[:at] + _NEXT_KEYS[letter] + text[at + 1 :]
        case "stretch":
            return text[:at] + letter * rng.randrange(3, 6) + text[at + 1 :]
        case "vowels":
            return text[:at] + re.sub("[aeiou]", "", text[at:], count=1)
        case "scan":
            return text[:at] + _SCANNED.get(letter, letter) + text[at + 1 :]
    raise ValueError(f"unknown noise: {noise}")
