"""Mails, table rows and tickets with labelled secrets, made with Faker for `benchmarks/pii.py`.

Two sets share no frame and no format of a code: "A" was looked at when the policy `identifiers` was written, "B" was
written afterwards, by the same hand, and only scored. One mail in six is German, since real mailboxes hold other
languages, and a tenth of all is in small letters.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from data_sets import Text as Labelled
from faker import Faker

_SLOT = re.compile(r"\{(\w+)\}")

OPENINGS = {
    "A": ["Hi {first},", "Dear {name},", "Hello,", "Good morning {first},"],
    "B": ["{first} -", "To whom it may concern", "Hey there {first}!", "Dear Mr. {last},"],
    "German": ["Hallo {first},", "Sehr geehrte Frau {last},", "Guten Tag,"],
}
LINES = {
    "A": [
        "My order {order} has not arrived yet.",
        "The order number is {order}.",
        "I paid for {order} with card {card}.",
        "Please refund it to {iban}.",
        "My IBAN is {iban}.",
        "You can reach me at {mail} or {phone}.",
        "My password is {password} and it does not work.",
        "Username: {user}, password: {password}",
        "I am logged in as {user}.",
        "The server at {ip} shows key {key}.",
        "Our address is {address}.",
        "My number is {phone}.",
        "Please write to {mail} instead.",
        "Ticket {order} is still open.",
        "Best wishes from {name}.",
        "The box was damaged and one cup is broken.",
        "When will the new chairs be in stock again?",
        "I waited for two weeks and nobody called me back.",
        "Thank you for the quick answer last time.",
    ],
    "B": [
        "Regarding {order}: where is it?",
        "Could somebody look into purchase {order} for me?",
        "{order} came without the lamp.",
        "Send the money back, my bank account: {iban}.",
        "(account {iban}, holder {name})",
        "cc me under {mail} pls",
        "I can no longer sign in as {user} with {password}.",
        "pw is still {password}, nothing changed",
        "Login data - user {user} / pass {password}",
        "The token we use is {key}, it stopped working on {ip}.",
        "Ring {phone} after five, ask for {first}.",
        "We live at {address} now.",
        "Charge it to {card} as always.",
        "{mail} bounces, why?",
        "I was told by {name} that the parcel was on its way.",
        "The colour is nothing like the picture.",
        "It took me an hour to put the shelf together.",
        "Is there a discount if we take ten of them?",
        "Nothing else, have a good weekend.",
    ],
    "German": [
        "Meine Bestellung {order} ist noch nicht da.",
        "Bitte überweisen Sie auf {iban}.",
        "Mein Passwort lautet {password}.",
        "Sie erreichen mich unter {mail} oder {phone}.",
        "Der Benutzername ist {user}.",
        "Die Lampe war leider beschädigt.",
        "Ich warte seit zwei Wochen auf eine Antwort.",
        "Die Rechnung zu {order} fehlt.",
    ],
}
CLOSINGS = {
    "A": ["Kind regards,\n{name}", "Thanks!\n{first}", "Best,\n{name}\n{phone}"],
    "B": ["cheers, {first}", "Sincerely\n{name}\n{mail}", "{first} {last} | {phone}"],
    "German": ["Mit freundlichen Grüßen\n{name}", "Viele Grüße\n{first}"],
}
TICKETS = {
    "A": [
        "{order} late, customer {name}",
        "reset for {user} done",
        "refund to {iban}",
        "call back {phone}",
        "wrong size",
    ],
    "B": [
        "{user}: locked out",
        "{mail} asks for invoice {order}",
        "pays by transfer from {iban}",
        "see {name}",
        "all good",
    ],
}
ORDERS = {
    "A": ["ORD-######", "??-####-??", "#########", "2024-######"],
    "B": ["WEB/####/#####", "?#?##?#", "########-##", "SO#######", "???#####"],
}


def _values(which: str, rng: random.Random, fake: Faker) -> dict[str, Callable[[], str]]:
    def password() -> str:
        if which == "A":
            return rng.choice([fake.password(10), f"{fake.word()}{rng.randrange(10, 9999)}", fake.word() + fake.word()])
        made = f"{fake.first_name()}-{rng.randrange(100)}-{fake.word()}"
        return rng.choice(
            [fake.password(14, special_chars=False), made, f"{fake.word().title()}{rng.randrange(1950, 2024)}!"]
        )

    def iban() -> str:
        plain = fake.iban()
        return plain if rng.random() < 0.5 else " ".join(plain[i : i + 4] for i in range(0, len(plain), 4))

    def user() -> str:
        if which == "A":
            return rng.choice([fake.user_name(), f"{fake.first_name().lower()}_{rng.randrange(100)}"])
        return rng.choice([f"{fake.last_name()[:4].lower()}{fake.first_name()[:3].lower()}", f"x{fake.word()}x"])

    keys = (
        ["ghp_" + "?" * 36, "AKIA" + "?" * 16]
        if which == "A"
        else ["sk_live_" + "?" * 24, "xoxb-" + "#" * 11 + "-" + "?" * 24]
    )
    return {
        "first": fake.first_name, "last": fake.last_name, "name": fake.name, "mail": fake.email,
        "phone": fake.phone_number,
        "order": lambda: fake.bothify(rng.choice(ORDERS[which])).upper(), "iban": iban, "card": fake.credit_card_number,
        "password": password, "user": user, "ip": fake.ipv4, "address": lambda: fake.address().replace("\n", ", "),
        "key": lambda: fake.lexify(rng.choice(keys), "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"),
    }  # fmt: skip


KINDS = {"first": "NAME", "last": "NAME", "name": "NAME", "user": "USERNAME", "mail": "EMAIL", "key": "KEY"}


def _filled(frame: str, values: dict[str, Callable[[], str]], lower: bool) -> Labelled:
    text, spans, at = "", [], 0
    for slot in _SLOT.finditer(frame):
        text += frame[at : slot.start()]
        value = values[slot[1]]()
        spans.append((len(text), len(text) + len(value), KINDS.get(slot[1], slot[1].upper())))
        text, at = text + value, slot.end()
    text += frame[at:]
    return (text.lower() if lower else text), spans


def mails(which: str, number: int, seed: int) -> Iterator[Labelled]:
    """Yields mails with headers, and then half as many table rows and tickets, each a text of its own."""
    rng = random.Random(f"{which}{seed}")
    fake = Faker("en_US")
    fake.seed_instance(rng.getrandbits(32))
    values = _values(which, rng, fake)
    for i in range(number):
        style = "German" if i % 6 == 5 else which
        lines = rng.sample(LINES[style], 5)
        head = "From: {name} <{mail}>\nTo: {mail}\nSubject: your shop\n\n"
        body = rng.choice(OPENINGS[style]) + "\n\n" + "\n".join(lines) + "\n\n" + rng.choice(CLOSINGS[style])
        yield _filled(head + body, values, lower=i % 10 == 0)
    for i in range(number // 2):
        yield _filled(rng.choice(TICKETS[which]), values, lower=i % 10 == 0)
