"""The wordings and value formats of the CustomerSim simulator, in two sets that share neither.

Set A is for working on policies. Set B, with other words, other formats and barer answers, is held out, to see whether
a policy learnt the secrets or the templates. In a template, ``{NAME}`` and the like stand for a secret with that label;
``{item}`` is not a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

LABELS = ("NAME", "ADDRESS", "PHONE", "ORDER", "TRACKING")
BASE36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, kw_only=True)
class TemplateSet:
    """Wordings by purpose, and how each kind of secret is written.

    ``greetings``, ``hellos``, ``requests``: how a dialogue opens (agent, then customer). ``asks`` and ``answers``: by
    label. ``resolutions``: the agent's answer, with the tracking number. ``more``: the agent's question after it.
    ``dones``, ``byes``: the customer's last turn, its second half when the agent replies. ``farewells``: that reply.
    ``formats``: by label, from random source and plain value to the value as written.
    """

    greetings: tuple[str, ...]
    hellos: tuple[str, ...]
    items: tuple[str, ...]
    requests: tuple[str, ...]
    asks: dict[str, tuple[str, ...]]
    answers: dict[str, tuple[str, ...]]
    resolutions: tuple[str, ...]
    more: tuple[str, ...]
    dones: tuple[str, ...]
    byes: tuple[str, ...]
    farewells: tuple[str, ...]
    formats: dict[str, Callable[[Random, str], str]]


def _as_is(rng: Random, value: str) -> str:
    return value


def _phone_a(rng: Random, value: str) -> str:
    area, exchange, line = value[:3], value[3:6], value[6:]
    return rng.choice((f"{area}-{exchange}-{line}", f"{area}.{exchange}.{line}", value))


def _phone_b(rng: Random, value: str) -> str:
    area, exchange, line = value[:3], value[3:6], value[6:]
    forms = (f"({area}) {exchange} {line}", f"+1 {area} {exchange} {line}", f"1/{area}/{exchange}/{line}")
    return rng.choice(forms)


def _name_b(rng: Random, value: str) -> str:
    first, _, last = value.partition(" ")
    return rng.choice((value.lower(), f"{last}, {first}", f"{first[0]}. {last}", value.upper()))


def _address_b(rng: Random, value: str) -> str:
    return rng.choice((value.lower(), value.replace(" Apt. ", " #").replace(" Suite ", ", unit ").upper()))


def _order_b(rng: Random, value: str) -> str:
    digits = value.replace("-", "")
    return rng.choice((f"#{digits[:8]}/{digits[8:]}", f"po{digits[:9]}", f"{digits[:6]} {digits[6:]}"))


def _tracking_b(rng: Random, value: str) -> str:
    return rng.choice((f"1Z {value[:5]} {value[5:]}", f"trk-{value[:4]}-{value[4:]}".lower(), f"{value}US"))


SET_A = TemplateSet(
    greetings=(
        "Hello, this is the support bot of the shop. What can I do for you today?",
        "Hello, this is the support bot of the shop. How may I help?",
        "Hi there, you have reached customer support. What do you need?",
    ),
    hellos=("Hi.", "Hello there.", "Hey bot.", "Good morning."),
    items=("lamp", "kettle", "mobile phone", "chair", "lipstick", "backpack", "desk fan", "pair of shoes"),
    requests=(
        "I bought a {item} last week but I can't track it.",
        "I ordered a {item} a few days ago and it hasn't shown up yet.",
        "I placed an order but I don't know whether it was shipped.",
        "Could you help me find my package please?",
        "Where is my parcel?",
        "I want to change an order, but I need to know where it is first.",
        "I would like to send back a {item}, but it has not even arrived.",
    ),
    asks={
        "NAME": ("May I have your full name please?", "Please tell me your full name.", "Could I get your full name?"),
        "PHONE": ("Please confirm your phone number.", "Ok, what is your phone number?"),
        "ADDRESS": ("We also need the shipping address.", "Could you confirm your shipping address please?"),
        "ORDER": (
            "Can you give me the order number?",
            "Please confirm your order number.",
            "Could I also have your order number?",
        ),
    },
    answers={
        "NAME": ("{NAME}", "{NAME}.", "I am {NAME}.", "Sure, {NAME}.", "Yes, {NAME}.", "My name is {NAME}."),
        "PHONE": (
            "{PHONE}.",
            "{PHONE} is my number.",
            "My phone number is {PHONE}",
            "You can call me at {PHONE}.",
            "Sure, it's {PHONE}.",
        ),
        "ADDRESS": (
            "{ADDRESS}.",
            "My address is {ADDRESS}.",
            "Ok, it is {ADDRESS}.",
            "Sure, {ADDRESS}.",
            "The shipping address is {ADDRESS}.",
        ),
        "ORDER": ("{ORDER}", "It's {ORDER}.", "My order number is {ORDER}.", "Sure, it is {ORDER}", "Yes, {ORDER}."),
    },
    resolutions=(
        "Your tracking number is {TRACKING}.",
        "You can follow your package with your tracking number, {TRACKING}.",
        "It is on its way, and you can track it with the tracking number {TRACKING}.",
    ),
    more=("Anything else?", "What else can I do?", "Is there anything more I can help with?", "Does that help you?"),
    dones=("That's all.", "No more questions.", "All fine now.", "I have what I need.", "That was it, thanks!"),
    byes=("See you.", "Thank you.", "Bye now."),
    farewells=("Goodbye.", "Bye.", "Have a great day! Bye.", "It was a pleasure to help you."),
    formats={
        "NAME": _as_is,
        "ADDRESS": _as_is,
        "PHONE": _phone_a,
        "ORDER": _as_is,
        "TRACKING": _as_is,
    },
)

SET_B = TemplateSet(
    greetings=(
        "Welcome to the delivery desk, you are now connected to a virtual agent. Tell me what happened.",
        "Thanks for contacting the delivery desk, a virtual agent is listening. Which shipment is this about?",
        "Delivery desk, virtual agent speaking. Describe your problem in a sentence or two, if you would.",
    ),
    hellos=("yo", "greetings,", "ok so", "um,"),
    items=("toaster", "guitar", "winter coat", "blender", "tent", "bookshelf"),
    requests=(
        "my {item} still did not come and nobody tells me anything",
        "the {item} is four days late now, any news on that one",
        "nothing in the mailbox again, somebody must have lost my shipment",
        "the courier page only says pending, and it said so yesterday as well",
        "just checking on a delivery that was due on monday",
    ),
    asks={
        "NAME": ("Who placed it?", "Whose account would that be under?", "Under which name was this booked?"),
        "PHONE": ("A number to reach you on?", "Which mobile or landline did you leave with us?"),
        "ADDRESS": ("Where should it have gone?", "Which street and town was it meant for?"),
        "ORDER": ("What does the invoice say at the top?", "Read me the reference on the invoice, if you can."),
    },
    answers={
        "NAME": ("{NAME}", "under {NAME} i think", "{NAME} here", "booked as {NAME}"),
        "PHONE": ("{PHONE}", "try {PHONE}", "best on {PHONE} after five", "cell {PHONE}"),
        "ADDRESS": ("{ADDRESS}", "to {ADDRESS}", "{ADDRESS} same as always", "should be {ADDRESS}"),
        "ORDER": ("{ORDER}", "ref {ORDER}", "it reads {ORDER}", "{ORDER} as far as i can make out"),
    },
    resolutions=(
        "Found it: the carrier lists this shipment as {TRACKING}.",
        "The depot scanned {TRACKING} this morning, so it left already.",
        "Got it, {TRACKING} went out with the van today.",
    ),
    more=("Need me for another thing?", "Shall I look up one more?", "Are we good?"),
    dones=("nope", "we are good", "cool, that works", "nah that covers it", "great"),
    byes=("cheers", "ta", "take care"),
    farewells=("Until next time.", "Enjoy your delivery.", "Closing this chat now."),
    formats={
        "NAME": _name_b,
        "ADDRESS": _address_b,
        "PHONE": _phone_b,
        "ORDER": _order_b,
        "TRACKING": _tracking_b,
    },
)

TEMPLATE_SETS = {"A": SET_A, "B": SET_B}
