"""CustomerSim: simulated support dialogues with known secrets (after Shi et al., Selective Differential Privacy).

A customer asks for a parcel; the agent checks a name and one more detail, gives a tracking number, and says goodbye.
There are few wordings, so generic turns repeat (deduplication has work to do), and some customers call again, so that
secrets repeat. In between they talk about products, opening hours, returns, complaints or the weather, without secrets
and rarely twice in the same words. The original simulator has no such turns. Faker makes up every person and number.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pipelines.corpus.customersim.templates import BASE36, LABELS, PLACEHOLDER, TEMPLATE_SETS, TemplateSet
from pipelines.corpus.listing import OWN_README
from pipelines.errors import ConfigError, InputError

RECURRING_SHARE = 0.2
"""Share of dialogues whose customer has called before, unless a number of dialogues per customer is given."""
_LEFT_OUT_SHARE = 0.04  # share of dialogues in which the agent skips the second check
_DETOUR_SHARE = 0.04  # share in which the customer gives another detail instead of a goodbye
_FAREWELL_SHARE = 0.5


class Customer(NamedTuple):
    """A made-up person, with values in the plain form that the template sets vary."""

    name: str
    address: str
    phone: str


def simulate(
    num_dialogues: int, seed: int, template_set: str = "A", dialogues_per_customer: float | None = None
) -> Iterator[dict[str, Any]]:
    """Simulates dialogues.

    Dialogue ``i`` depends only on ``seed``, ``template_set`` and ``i``, so more dialogues do not change earlier ones.

    Args:
        num_dialogues: number of dialogues
        seed: any integer
        template_set: ``A``, or ``B`` with other wordings and formats
        dialogues_per_customer: mean number of dialogues of a customer, at least 1. Each dialogue is that of a new
            customer, or of the customer of a random earlier dialogue (a Yule-Simon process), so that a few customers
            have very many. None: 1.25, and dialogues do not name their customer.

    Yields:
        A dictionary ``{"id", "text", "spans", "template_set"}``. ``text`` has one turn per line, which begins with
        ``SYS: `` or ``USR: ``. ``spans`` lists every secret in order, as ``{"start", "end", "label"}`` with half-open
        character offsets in ``text``. Labels are NAME, ADDRESS, PHONE, ORDER and TRACKING. With
        ``dialogues_per_customer`` there is also ``customer_id``.

    Raises:
        ConfigError: the template set does not exist, or a number is out of range.
    """
    if template_set not in TEMPLATE_SETS:
        raise ConfigError(f"there is no template set {template_set!r}; choose one of {', '.join(TEMPLATE_SETS)}.")
    if num_dialogues < 0:
        raise ConfigError("the number of dialogues must not be negative.")
    if dialogues_per_customer is not None and not 1 <= dialogues_per_customer < math.inf:
        raise ConfigError("the number of dialogues per customer must be at least 1.")
    return _simulate(num_dialogues, seed, template_set, dialogues_per_customer)


def _simulate(
    num_dialogues: int, seed: int, template_set: str, dialogues_per_customer: float | None
) -> Iterator[dict[str, Any]]:
    from faker import Faker

    faker = Faker("en_US")
    for number in range(num_dialogues):
        rng = Random(f"customersim/{seed}/{template_set}/dialogue/{number}")  # noqa: S311 (no secret depends on it)
        caller = _customer_number(seed, template_set, number, dialogues_per_customer)
        faker.seed_instance(f"customersim/{seed}/{template_set}/customer/{caller}")
        customer = Customer(
            name=f"{faker.first_name()} {faker.last_name()}",
            address=faker.address().replace("\n", " "),
            phone=f"{faker.random_int(200, 999)}{faker.random_int(0, 9_999_999):07d}",
        )
        turns = _Turns(rng, TEMPLATE_SETS[template_set], customer)
        # A separate random source, so that the talk does not change secrets or the turns around them.
        talk = Random(f"customersim/{seed}/{template_set}/talk/{number}")  # noqa: S311
        turns.play(talk)
        row: dict[str, Any] = {
            "id": f"customersim-{template_set.lower()}-{seed}-{number}",
            "text": turns.text,
            "spans": turns.spans,
            "template_set": template_set,
        }
        if dialogues_per_customer is not None:
            row["customer_id"] = f"customer-{template_set.lower()}-{seed}-{caller}"
        yield row


def _customer_number(seed: int, template_set: str, number: int, dialogues_per_customer: float | None) -> int:
    """Returns the caller of a dialogue: a new customer, named after the dialogue, or the caller of an earlier one."""
    recurring = RECURRING_SHARE if dialogues_per_customer is None else 1 - 1 / dialogues_per_customer
    while number:
        rng = Random(f"customersim/{seed}/{template_set}/caller/{number}")  # noqa: S311
        if rng.random() >= recurring:
            break
        number = rng.randrange(number)
    return number


class _Turns:
    """Plays one dialogue: writes turns and notes the places of secrets."""

    def __init__(self, rng: Random, templates: TemplateSet, customer: Customer) -> None:
        self._rng = rng
        self._templates = templates
        order = "".join(rng.choices("0123456789", k=12))
        plain = {
            "NAME": customer.name,
            "ADDRESS": customer.address,
            "PHONE": customer.phone,
            "ORDER": f"{order[:3]}-{order[3:8]}-{order[8:]}",
            # At least one digit and one letter: a word in capitals is not a tracking number.
            "TRACKING": rng.choice("0123456789") + "".join(rng.choices(BASE36, k=8)) + rng.choice(BASE36[10:]),
        }
        shuffled = list(plain["TRACKING"])
        rng.shuffle(shuffled)
        plain["TRACKING"] = "".join(shuffled)
        # A secret is written one way throughout a dialogue, as a person would.
        self._values = {label: templates.formats[label](rng, plain[label]) for label in LABELS}
        self._values["item"] = rng.choice(templates.items)
        self.text = ""
        self.spans: list[dict[str, Any]] = []

    def play(self, talk: Random) -> None:
        """Writes greeting, request, checks, answer and goodbye, with talk in between."""
        pick, templates = self._rng.choice, self._templates
        opening, closing = templates.talk.played(talk, self._values["item"])
        checks = [pick(("PHONE", "ADDRESS", "ORDER"))] if self._rng.random() >= _LEFT_OUT_SHARE else []
        self._say("SYS", pick(templates.greetings))
        self._say("USR", f"{pick(templates.hellos)} {pick(templates.requests)}")
        for question, reply in opening:
            self._say("SYS", question)
            self._say("USR", reply)
        for label in ("NAME", *checks):
            self._say("SYS", pick(templates.asks[label]))
            self._say("USR", pick(templates.answers[label]))
        self._answer()
        if self._rng.random() < _DETOUR_SHARE:
            self._say("USR", pick(templates.answers[pick(("NAME", "PHONE", "ADDRESS", "ORDER"))]))
            self._answer()
        for question, reply in closing:
            self._say("USR", question)
            self._say("SYS", reply)
        if self._rng.random() < _FAREWELL_SHARE:
            self._say("USR", f"{pick(templates.dones)} {pick(templates.byes)}")
            self._say("SYS", pick(templates.farewells))
        else:
            self._say("USR", pick(templates.dones))

    def _answer(self) -> None:
        self._say("SYS", f"{self._rng.choice(self._templates.resolutions)} {self._rng.choice(self._templates.more)}")

    def _say(self, speaker: str, template: str) -> None:
        self.text += f"{speaker}: "
        at = 0
        for match in PLACEHOLDER.finditer(template):
            self.text += template[at : match.start()]
            value = self._values[match[1]]
            if match[1] in LABELS:
                start = len(self.text)
                self.spans.append({"start": start, "end": start + len(value), "label": match[1]})
            self.text += value
            at = match.end()
        self.text += template[at:] + "\n"


_README = """{head}
Every person, address and number is made up (Faker). One JSON object per line: id, text (one turn per line), spans (the
secrets: half-open character offsets in text, with a label) and template_set.

dialogues: {num_dialogues}
seed: {seed}
template set: {template_set}
"""


def write_customersim(
    out_dir: Path,
    num_dialogues: int,
    seed: int,
    template_set: str = "A",
    file_dialogues: int = 1000,
    dialogues_per_customer: float | None = None,
) -> list[Path]:
    """Writes dialogues as ``dialogues-00000.jsonl`` … and a ``README.txt``. Equal arguments give the same bytes.

    The folder appears complete or not at all, and replaces an earlier output of this function.

    Args:
        out_dir: folder to create
        num_dialogues: number of dialogues, at least 1
        seed, template_set, dialogues_per_customer: arguments of `simulate`
        file_dialogues: number of dialogues per file

    Returns:
        The dialogue files, in order.

    Raises:
        ConfigError: a number is out of range, or the template set does not exist.
        InputError: ``out_dir`` is a file or holds other files, or cannot be written.
    """
    if num_dialogues < 1 or file_dialogues < 1:
        raise ConfigError("the number of dialogues, and of dialogues in a file, must be at least 1.")
    dialogues = simulate(num_dialogues, seed, template_set, dialogues_per_customer)
    out_dir = Path(out_dir)
    _refuse_foreign(out_dir)
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}.", dir=out_dir.parent))
        try:
            new = building / "new"
            new.mkdir()
            names: list[str] = []
            for start in range(0, num_dialogues, file_dialogues):
                names.append(f"dialogues-{len(names):05d}.jsonl")
                with (new / names[-1]).open("w", encoding="utf-8", newline="\n") as file:
                    for _ in range(start, min(start + file_dialogues, num_dialogues)):
                        file.write(json.dumps(next(dialogues), ensure_ascii=False) + "\n")
            readme = _README.format(head=OWN_README, num_dialogues=num_dialogues, seed=seed, template_set=template_set)
            if dialogues_per_customer is not None:
                readme += f"dialogues per customer (customer_id): {dialogues_per_customer:g}\n"
            (new / "README.txt").write_text(readme, encoding="utf-8")
            if out_dir.exists():
                out_dir.rename(building / "old")
            new.rename(out_dir)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    except OSError as error:
        raise InputError(f"{out_dir} cannot be written: {error.strerror}.") from None
    return [out_dir / name for name in names]


def _refuse_foreign(out_dir: Path) -> None:
    if not out_dir.exists():
        return
    if not out_dir.is_dir():
        raise InputError(f"{out_dir} is a file. Name a folder that is empty or does not exist yet.")
    for entry in out_dir.iterdir():
        if entry.name != "README.txt" and not re.fullmatch(r"dialogues-\d{5,}\.jsonl", entry.name):
            raise InputError(f"{out_dir} holds other files. Name a folder that is empty or does not exist yet.")
