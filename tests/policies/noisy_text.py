"""Noisy sentences with labelled secrets, made for measuring policies and never used to write them.

Two sets with nothing in common: not a frame, not a list of values, not a way of writing a value down. Set A was scored
before the policies were changed and then looked at; set B was scored once, afterwards. Names and places are written
here rather than taken from Faker, whose lists the policies read.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

Gold = list[tuple[int, int, str]]
_SLOT = re.compile(r"\{([A-Z]+)\}")


def _words(listed: str) -> list[str]:
    return listed.split()


def _items(listed: str) -> list[str]:
    return [" ".join(item.split()) for item in listed.split("|")]


_UNITS = _words("zero one two three four five six seven eight nine")
_TEENS = _words("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
_TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")

# --- set A ------------------------------------------------------------------------------------------------------

_A_GIVEN = _words("""
chidi ngozi nguyen thuy björk sigrún agnieszka zbigniew fatima yusuf xiaoming meiling jihoon soyeon
priyanka venkat kalani giorgi nino itziar amaia oluwaseun temitope santiago ximena étienne maëlys anneliese jürgen
grace will mark may rose hope bill art rich joy dawn frank drew chance""")
_A_FAMILY = _words("""
okonkwo adeyemi tran pham guðmundsdóttir kowalczyk wiśniewski al-hassan bin-rashid zhang ouyang park
hwang iyer subramaniam kealoha beridze etxeberria echeverría o'sullivan mcallister van-der-meer dubois lefèvre
schröder young king price long rivers best short wise day""")
_A_STREETS = _items("""
Calle Alcalá 42, 3º izq|ul. Długa 14/3, 31-147 Kraków|12 bis rue des Lilas, 75019 Paris|Hauptstr. 7a,
50667 Köln|3-14-5 Shibuya-ku Tokyo|flat 3b 22 mill lane|No. 4 Jalan Ampang, 50450 KL|Rua das Flores 88, Porto|via
Garibaldi 9, Torino|Skólavörðustígur 21, 101 Reykjavík|plot 14 awolowo way ikeja|14/2 mg road, bengaluru 560001|4451 elm
ave apt 2|P.O. Box 771, Lagos|88 High St, Leeds LS1 4AP|corner of 5th and main|1600 penn. ave nw""")
_A_ORGS = _items("""
best buy|target|apple|first national|general motors|the gap|delta|orange|shell|home depot|
kaiser permanente|nordwind gmbh|tata steel|petrobras|st. mary's""")
_A_PLACES = _items("""
long beach|grand rapids|salt lake city|cape town|new orleans|reading|nice|cork|mobile alabama|düsseldorf|
ho chi minh city|kraków|ouagadougou|little rock|green bay""")
_A_CONDITIONS = _items("dm2|htn|copd|afib|hep c|hiv|bipolar|mi in 2014|ca breast|ckd stage 3|sob on exertion|ptsd")

_A_SECRET = """
hey its {NAME} lol whats up
omg {NAME} just txted me again
did u see what {NAME} posted
{NAME} n me r going out 2nite
tell {NAME} i said hi
idk ask {NAME} she knows
this is {NAME} from {ORG}
im {NAME} btw
my name is {NAME}
i'm called {NAME} but everyone says otherwise
{NAME} speaking how can i help
ya {NAME} told me to ask you
it was {NAME} who did it
thanks {NAME}
hi {NAME} can you help me
send it over to {NAME} please
pls ship to {ADDRESS}
i live at {ADDRESS}
new addr {ADDRESS} thx
its {ADDRESS} near the park
we moved from {PLACE} last year
im from {PLACE}
i grew up in {PLACE} and never left
going to {PLACE} next week
call me {PHONE}
my cell is {PHONE}
txt {PHONE} when u get here
you can reach me on {PHONE} after work
its {PHONE}
email me {EMAIL}
my mail is {EMAIL}
send the file to {EMAIL} please
write to {EMAIL} or just call
order {CODE} never came
my order number is {CODE}
ref {CODE} pls check
the code is {CODE}
tracking says {CODE} still in transit
{CODE}
booking {CODE} for two
dob {DATE}
i was born on {DATE}
her birthday is {DATE}
appt on {DATE} at noon
i'm {AGE} and still in school
she turned {AGE} last week
{AGE} yo m c/o chest pain
pt {NAME} {AGE}yo f hx {CONDITION}
pt w/ {CONDITION} d/c home today
hx of {CONDITION}
dx {CONDITION} in the past
i have {CONDITION} and need my meds
my mom was told she has {CONDITION}
mrn {CODE} seen in clinic
i work at {ORG}
i just got a job with {ORG}
{ORG} fired me
my account with {ORG} is locked
the password is {PASSWORD}
use {PASSWORD} to log in
my pin is {PIN}
last four are {PIN}
username {USER}
add me on snap {USER}
follow {USER} on insta
i make {MONEY} a year
they owe me {MONEY}
Kind regards, {NAME}
-- {NAME} | {ORG} | {PHONE}
Sent by {NAME}, {PLACE}
Sincerely {NAME} Dept. of Sales
Tel {PHONE} Fax on request
Dr {NAME} will see you now
Mr {NAME} is here
{NAME}, {AGE}, of {PLACE}
"""
_A_PLAIN = """
lol ok
thx so much
brb in a min
omg that was sooo good
i dont know what to do
can you help me please
where is my order
it never came
i want to cancel it
how long will it take
that is not what i asked for
why is this so slow
i have been waiting for a long time
please call me back
ok i will wait
thank you for your help today
can i change the delivery date
my card does not work
the app keeps crashing on my phone
i forgot my password
do you have this in another color
i need a new one
is there anything else i can do
have a great day
that sounds good to me
i will try it again later
the box was open when it came
nobody answered the door
i am not happy with this
what do you need from me
"""

# --- set B ------------------------------------------------------------------------------------------------------

_B_GIVEN = _words("""
adaeze kwabena thandiwe sipho bao-anh quynh þórdís hrafn małgorzata krzysztof aaliyah mustafa weiwei
haoran eunbi taeyang lakshmi raghunathan leilani keoni tamar zurab nekane ander funmilayo babatunde joaquín
guadalupe benoît solène friederike uwe faith sunny miles iris olive summer autumn sky jack pat sue gene ray heather
jewel""")
_B_FAMILY = _words("""
mbeki owusu-ansah dlamini vo-nguyen einarsson szczepański jabłonska haddad el-masri liu-chen sato
takahashi balakrishnan chatterjee mahoe lomidze goikoetxea ibáñez fitzgerald macpherson de-vries lambert moreau
großmann white black stone field cook page love french church bell moon""")
_B_STREETS = _items("""
Avenida Corrientes 1234 piso 2, CABA|Nowy Świat 6/12, 00-400 Warszawa|5 impasse du Moulin, 69003 Lyon|
Am Alten Markt 11, 14467 Potsdam|2-8-1 Nishi-Shinjuku|unit 9 old mill yard|Lot 12 Jln Tun Razak|Travessa do Carmo 3 r/c,
Lisboa|Corso Vittorio 101, Milano|Laugavegur 5|block 7 house 19 gulshan|b-204 green park society pune|77 w 3rd st #5f|
Postbus 4412, 1012 AB Amsterdam|14 Church Rd, Hove BN3 2FL|junction of park and second|9 rose cottage, the green""")
_B_ORGS = _items("""
whole foods|chase|square|visa|american express|the container store|united|three|next|office depot|mercy
general|sommerfeld ag|reliance|vale|our lady of hope""")
_B_PLACES = _items("""
big sur|cedar rapids|palm springs|ivory coast|new haven|bath|split|sandwich kent|orange county|göteborg|
da nang|wrocław|antananarivo|high point|grand forks""")
_B_CONDITIONS = _items("t1dm|cad|osa|chf|hpv|lupus|schizophrenia|cva 2019|nsclc|gerd|ocd|stillbirth")

_B_SECRET = """
yo {NAME} wya
{NAME} is sooo annoying smh
ngl {NAME} was right abt that
have you heard from {NAME} lately
that was {NAME}'s idea not mine
my sister {NAME} is coming too
you are speaking with {NAME}
the customer is {NAME}
name on the card: {NAME}
sure, {NAME}
{NAME} here, quick question
i think {NAME} and i broke up
her husband {NAME} lost his job
please ask for {NAME} at the desk
good morning {NAME}
it's for {NAME} not for me
deliver to {ADDRESS}
my place is {ADDRESS}, come over
{ADDRESS} is where we met
change it to {ADDRESS}
flying out of {PLACE} tmrw
born and raised in {PLACE}
the house in {PLACE} was sold
weather in {PLACE} is awful
ring {PHONE}
whatsapp {PHONE} anytime
number's {PHONE}
if not here then {PHONE}
ph. {PHONE} ask for me
mail's {EMAIL}
forward to {EMAIL} asap
contact: {EMAIL}
you can write me, {EMAIL}, thanks
parcel {CODE} got lost
it says {CODE} on the label
confirmation {CODE}
conf no {CODE} under my name
serial is {CODE}
{CODE} that's the one
my bday is {DATE}
since {DATE} i can't sleep
admitted {DATE}
we got married {DATE}
turning {AGE} soon
my kid is {AGE}
{AGE}M presents w/ fever
{NAME}, {AGE}F, {CONDITION}, stable
pmh {CONDITION}
r/o {CONDITION}
s/p {CONDITION} on asa
they say it might be {CONDITION}
living with {CONDITION} is hard
pt id {CODE} bp ok
my boss at {ORG} is mean
{ORG} turned me down
i used to drive for {ORG}
got a letter from {ORG} today
password: {PASSWORD}
it's {PASSWORD} all lower case
pin {PIN}
ends in {PIN}
my handle is {USER}
dm {USER}
ig: {USER}
paid {MONEY} for it
salary is {MONEY}
Best, {NAME}
{NAME} // {ORG} // {EMAIL}
Yours truly, {NAME} ({PLACE} office)
Mobile {PHONE}
Prof. {NAME} said no
Ms {NAME} called
attn {NAME}
"""
_B_PLAIN = """
haha yes
ty for that
gotta go now
that is so funny
i really do not care
could someone explain this to me
when will it be delivered
i did not get it
please stop sending me these
how much is it
you sent me the wrong one
it takes forever to load
i was on hold all day
get back to me when you can
fine, i can wait
that was very helpful
may i pick another time
the payment did not go through
the screen is broken again
i can not log in
is it still available
send me another one
what else do you need to know
see you later
sounds right
let me think about it
everything was wet when i opened it
they left it outside
this is not good enough
tell me what to do next
"""


def noisy_sentences(which: str, number: int, seed: int) -> Iterator[tuple[str, Gold]]:
    """Sentences with their secrets ``(start, end, kind)``, three in four with one; none has a line break.

    Args:
        which: ``"A"`` or ``"B"``.
        number: how many.
        seed: of all choices.
    """
    rng = random.Random(f"{which}{seed}")
    secret, plain = (_A_SECRET, _A_PLAIN) if which == "A" else (_B_SECRET, _B_PLAIN)
    values = _values_a(rng) if which == "A" else _values_b(rng)
    frames, others = secret.strip().splitlines(), plain.strip().splitlines()
    for i in range(number):
        if i % 4 == 3:
            yield _noisy_word(rng, rng.choice(others)) if rng.random() < 0.3 else rng.choice(others), []
            continue
        frame = frames[i % len(frames)] if i < len(frames) else rng.choice(frames)
        yield _filled(rng, frame, values)


def _filled(rng: random.Random, frame: str, values: dict[str, Callable[[], str]]) -> tuple[str, Gold]:
    """A frame with its slots filled, the words around them at times misspelt, sometimes in another case."""
    case = rng.choice([str, str, str, str.upper, str.capitalize])
    text, gold, at = "", [], 0
    for slot in _SLOT.finditer(frame):
        text += case(_noisy_word(rng, frame[at : slot.start()]) if rng.random() < 0.25 else frame[at : slot.start()])
        value = " ".join(values[slot[1]]().split())
        value = value.upper() if case is str.upper and slot[1] != "EMAIL" else value
        gold.append((len(text), len(text) + len(value), slot[1]))
        text, at = text + value, slot.end()
    return text + case(frame[at:]), gold


def _noisy_word(rng: random.Random, text: str) -> str:
    """One longer word misspelt: a letter twice, dropped, swapped, or read as another by a scanner."""
    words = list(re.finditer(r"[a-z]{4,}", text))
    if not words:
        return text
    word = rng.choice(words)
    i = rng.randrange(word.start() + 1, word.end() - 1)
    return rng.choice(
        [
            text[:i] + text[i] + text[i:],
            text[:i] + text[i + 1 :],
            text[:i] + text[i + 1] + text[i] + text[i + 2 :],
            text[:i] + {"l": "1", "o": "0", "m": "rn", "e": "c", "s": "5"}.get(text[i], text[i]) + text[i + 1 :],
        ]
    )


def _below_hundred(number: int) -> str:
    if number < 20:
        return (_UNITS + _TEENS)[number]
    return _TENS[number // 10 - 2] + (f" {_UNITS[number % 10]}" if number % 10 else "")


def _in_words(rng: random.Random, digits: str, zero: str) -> str:
    return " ".join(rng.choice([zero, "zero"]) if d == "0" else _UNITS[int(d)] for d in digits)


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choice("0123456789") for _ in range(count))


def _scanned(rng: random.Random, text: str) -> str:
    return "".join({"0": "O", "1": "l", "5": "S"}.get(c, c) if rng.random() < 0.4 else c for c in text)


def _values_a(rng: random.Random) -> dict[str, Callable[[], str]]:
    def name() -> str:
        given, family = rng.choice(_A_GIVEN), rng.choice(_A_FAMILY)
        written = rng.choice([given, f"{given} {family}", f"{given} {family}", f"{given[0]}. {family}", family])
        return rng.choice([written, written, written.title(), written.upper()])

    def email() -> str:
        given, family = rng.choice(_A_GIVEN), rng.choice(_A_FAMILY)
        host = rng.choice(["gmail", "yahoo", "hotmail", "web de"])
        return rng.choice(
            [f"{given} dot {family} at {host}", f"{given}_{family}@{host}.com", f"{given} {family} at {host} dot com"]
        )

    def phone() -> str:
        d = _digits(rng, 10)
        return rng.choice(
            [f"{d[:3]} {d[3:6]} {d[6:]}", _in_words(rng, d[:7], "oh"), _scanned(rng, f"{d[:3]}-{d[3:6]}-{d[6:]}"),
             f"+44 (0){d[:2]} {d[2:6]} {d[6:]}", f"o{d[1:4]} {d[4:]}"]
        )  # fmt: skip

    def code() -> str:
        letters = "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(6))
        d = _digits(rng, 9)
        return rng.choice(
            [f"{letters[:2]}{d}", d, f"#{d[:5]}", letters + d[:4], f"{letters[:3].lower()}-{d[:4]}", letters,
             _in_words(rng, d[:5], "oh"), " ".join(letters.lower())]
        )  # fmt: skip

    def date() -> str:
        day, year = rng.randrange(1, 28), rng.randrange(40, 99)
        month = rng.choice(_words("jan feb march april june aug sept october"))
        return rng.choice(
            [f"{day}/{rng.randrange(1, 12)}/{year}", f"{day} {month} 19{year}", f"the {_TEENS[day % 10]}th of {month}",
             f"{month} {_below_hundred(day)}", f"nineteen {_below_hundred(year)}"]
        )  # fmt: skip

    return {
        "NAME": name, "EMAIL": email, "PHONE": phone, "CODE": code, "DATE": date,
        "ADDRESS": lambda: rng.choice([str, str.lower])(rng.choice(_A_STREETS)),
        "PLACE": lambda: rng.choice([str, str.title])(rng.choice(_A_PLACES)),
        "ORG": lambda: rng.choice([str, str.title])(rng.choice(_A_ORGS)),
        "CONDITION": lambda: rng.choice(_A_CONDITIONS),
        "AGE": lambda: rng.choice([str, _below_hundred])(rng.randrange(5, 99)),
        "PASSWORD": lambda: rng.choice(["open sesame", "sunshine", "letmein", "blue horse", "iloveyou", "hunter2"]),
        "PIN": lambda: rng.choice([_digits(rng, 4), _in_words(rng, _digits(rng, 4), "oh"), "double two double one"]),
        "USER": lambda: rng.choice(["@dark_knight", "luv.kitty", "sunny_day", "bigmike", "queen b", "xx dragon xx"]),
        "MONEY": lambda: rng.choice(["ninety grand", "45k", "two hundred bucks", "$1,200", "fifty thousand"]),
    }  # fmt: skip


def _values_b(rng: random.Random) -> dict[str, Callable[[], str]]:
    def name() -> str:
        given, family = rng.choice(_B_GIVEN), rng.choice(_B_FAMILY)
        written = rng.choice([given, f"{family}, {given}", f"{given} {family}", f"{given} {family[0]}", family])
        return rng.choice([written, written.capitalize(), written.title()])

    def email() -> str:
        given, family = rng.choice(_B_GIVEN), rng.choice(_B_FAMILY)
        host = rng.choice(["outlook", "icloud", "proton", "qq"])
        return rng.choice(
            [f"{given}.{family} (at) {host} . com", f"{given[0]} {family} {rng.randrange(9)} at {host}",
             f"{given}{family}[at]{host}[dot]org", f"{family} underscore {given} at {host} point com"]
        )  # fmt: skip

    def phone() -> str:
        d = _digits(rng, 10)
        return rng.choice(
            [f"{d[:2]}.{d[2:4]}.{d[4:6]}.{d[6:8]}.{d[8:]}", f"({d[:3]}){d[3:6]} {d[6:]}", _in_words(rng, d, "o"),
             f"00{d[:2]}/{d[2:]}", f"triple {_UNITS[int(d[0])]} {_in_words(rng, d[1:5], 'nought')}",
             _scanned(rng, d)]
        )  # fmt: skip

    def code() -> str:
        letters = "".join(rng.choice("abcdefghkmnpqrstuvwxyz") for _ in range(7))
        d = _digits(rng, 8)
        return rng.choice(
            [f"{d[:4]}/{d[4:]}", f"{letters[:4]}{d[:2]}{letters[4:]}", f"{d[:3]} {d[3:6]} {d[6:]}", letters.upper(),
             f"no. {d[:6]}", f"{letters[0]} as in {rng.choice(['bravo', 'tango'])} {_in_words(rng, d[:3], 'o')}"]
        )  # fmt: skip

    def date() -> str:
        day, year = rng.randrange(1, 28), rng.randrange(50, 99)
        month = rng.choice(_words("february mar. apr may july september nov. dec"))
        return rng.choice(
            [f"{year}-0{rng.randrange(1, 9)}-{day:02}", f"{month} {day}", f"{month} of '{year}", f"{day}.{day}.{year}",
             f"the first of {month}", f"{_below_hundred(day)} {month} {_below_hundred(year)}"]
        )  # fmt: skip

    return {
        "NAME": name, "EMAIL": email, "PHONE": phone, "CODE": code, "DATE": date,
        "ADDRESS": lambda: rng.choice([str, str.lower])(rng.choice(_B_STREETS)),
        "PLACE": lambda: rng.choice([str, str.title])(rng.choice(_B_PLACES)),
        "ORG": lambda: rng.choice([str, str.title])(rng.choice(_B_ORGS)),
        "CONDITION": lambda: rng.choice(_B_CONDITIONS),
        "AGE": lambda: rng.choice([str, lambda n: f"{_below_hundred(n)} years old"])(rng.randrange(3, 90)),
        "PASSWORD": lambda: rng.choice(["correct staple", "welcome home", "abc123", "my secret", "qwerty", "summer"]),
        "PIN": lambda: rng.choice([_digits(rng, 6), f"{_below_hundred(rng.randrange(10, 99))} eleven", "one two one"]),
        "USER": lambda: rng.choice(["the.real.kim", "@lazy_cat", "coffee girl", "mister big", "no1fan", "sad boy"]),
        "MONEY": lambda: rng.choice(["80 grand", "a hundred thousand", "£35", "six figures", "12.50"]),
    }  # fmt: skip
