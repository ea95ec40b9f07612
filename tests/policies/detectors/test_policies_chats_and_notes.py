"""Secrets as people write them in chats, mails, clinical notes, statements and logs, and texts that look alike."""

from __future__ import annotations

import re
import time

import pytest

from pipelines.policies.detectors.identifiers.policy import find_identifiers

FOUND = {
    "rows in capitals": (
        "CUSTOMER ⟦TOMOYA⟧ RANG ABOUT LATE REFUND",
        "CALLER ⟦BRONISLAV⟧ VERY UPSET, HUNG UP TWICE",
        "SPOKE TO ⟦IFEYINWA⟧ RE MISSING PARCEL",
        "LEFT MSG FOR ⟦HJORDIS⟧, NO ANSWER",
    ),
    "patients": (
        "Pt ⟦Caoimhin⟧ was seen in ED, sent home with inhaler.",
        "pt ⟦ruaraidh⟧ is nauseous",
        "Pt. ⟦Nokuthula⟧ denies fever",
        "Pt ⟦Sioned⟧, 44F, doing well",
        "PT ⟦IEUAN⟧ C/O SOB",
    ),
    "new phones": (
        "heyy its ⟦dre⟧, lost my phone",
        "⟦kez⟧ here new fone",
        "text me back its ⟦gaz⟧",
    ),
    "bank statements": (
        "FASTER PAYMENT FROM ⟦P ARKWRIGHT⟧ REF RENT",
        "STANDING ORDER ⟦FENWICK T & S⟧ MORTGAGE",
        "FPI ⟦E HATHERLEIGH⟧ FOR CHILD CARE",
    ),
    "mentions and nicks": (
        "<@U04ZX1P8QQL|⟦imogen⟧> set the channel topic",
        "<@!⟦284756193847561234⟧> come to voice",
        "<⟦wisteria⟧> anyone else seeing 502s?\n<⟦brambling⟧> yes since noon",
        "-!- ⟦quillfeather⟧ [~qf@203.0.113.9] has joined #gardening",
        "*** ⟦duskowl⟧ is now known as ⟦nightowl_x⟧",
        "⟦swithin⟧ has joined the channel",
    ),
    "names of DICOM and HL7": (
        "(0010,0010) PN [⟦TREVELYAN^ISOLDE^M⟧]",
        "0010,0010: ⟦Yamada^Tarou=山田^太郎⟧",
        "study for ⟦brannigan^declan⟧ failed to send",
        "PN ⟦GRAY^ROSE^ANN⟧",
    ),
    "names beside mail addresses": (
        'Reply-To: "⟦Ashdown, Philippa⟧" <⟦pashdown@example.org⟧>',
        'from: "⟦marchetti, lidia⟧" <⟦lidia@example.com⟧>',
        "Signed-off-by: ⟦Hollis Greenway⟧ <⟦hg@example.com⟧>",
    ),
    "logins": (
        "log in as ⟦gwen.tal⟧ / ⟦Puddle!42⟧ and retry",
        "the login for staging is ⟦hpotts⟧ / ⟦Marigold7⟧",
        "logged in as ⟦minna⟧ with password ⟦lemonpie⟧",
        "account: ⟦lfinch⟧ | ⟦Teacup-88⟧",
    ),
    "names that are words": (
        "can ⟦rose⟧ pick up the kids, ⟦bill⟧ is stuck at work",
        "⟦grant⟧ is running late, start without him",
        "staying at ⟦rob⟧s place tonight",
        "heard from ⟦dean⟧ yet?",
        "⟦Hope⟧ left before ⟦Summer⟧ got there",
        "did you tell me about the thing with ⟦Grant⟧",
    ),
    "dates": (
        "D.O.B. ⟦21st of June 1979⟧",
        "d.o.b ⟦2nd of Dec '03⟧, school place wanted",
        "you were seen on ⟦the twenty-first of August two thousand and nineteen⟧",
        "birthday: ⟦30th april 88⟧",
        "wedding on ⟦Aug 9th, ’21⟧",
    ),
    "ages above 89": (
        "⟦92yo⟧ M w/ CHF",
        "⟦94 y/o⟧ F, fell at home",
        "⟦93F⟧ with hip fracture",
        "my nan is ⟦a hundred and one⟧ and still knits",
        "At ⟦eighty-four⟧ she still swam",
    ),
    "names in other scripts": (
        "Booking under ⟦فاطمة الزهراني⟧ for four",
        "table under ⟦山本 健太⟧ at eight",
        "I spoke with ⟦이수민⟧ yesterday",
        "cheque made out to ⟦นภา ศรีสุข⟧",
        "the locker belongs to ⟦Зураб⟧",
        "could you add ⟦박서연⟧ to the rota for friday",
        "Seating: ⟦สมชาย ใจดี⟧ + 1, by the door",
        "⟦Гульнара⟧ brings the cake and ⟦민준⟧ the plates",
    ),
    "roles and cues before a name": (
        "caller ⟦jermaine ackroyd⟧ cant reset the router",
        "Deliver to the depot. Attn: ⟦Kurosawa⟧",
        "Account 9920 1177 31 (⟦Mei-ling Hsu⟧) was closed by mistake.",
        "Pick up ⟦Ted Ollerton⟧ from the ward at 9",
        "seller ⟦vintage.lamps.porto⟧ wont answer",
    ),
    "what only persons do": (
        "⟦Bill⟧ will cook if ⟦Sandy⟧ stays with the twins.",
        "⟦Daisy⟧ transferred with a frame, ⟦Iris⟧ from OT will see her.",
        "⟦Kez⟧ and ⟦Daz⟧ got engaged at the lake",
        "⟦Wu⟧ and ⟦Ó Rian⟧ will chair the session.",
        "⟦Godfrith Haswell⟧, who ran the post office for years, passed away peacefully on Friday.",
    ),
    "names in HTML": ("<b>⟦J&uuml;rgen Kr&auml;mer⟧</b>, Sales", "<i>⟦S&oslash;ren Lindk&aelig;r⟧</i>"),
    "digits that check a card": (
        "the numbers on the back are ⟦552⟧",
        "cvv ⟦381⟧, thanks",
        "its security code is ⟦0917⟧",
    ),
}

CLEAN = {
    "roles and cues before a name": (
        "customer recieved wrong item",
        "Attention: Please mind the step",
        "Pick up Fresh Bread from the shop",
        "the poster session is open",
        "policy B2 (Large Box) was sent",
    ),
    "what only persons do": (
        "Hope will come, art will cover the walls and May will be warm.",
        "Fish and Chips will present a challenge.",
        "The old king died peacefully in his sleep.",
        "Joy from small things stays with the kids for years",
    ),
    "names in HTML": ("caf&eacute; cr&egrave;me &copy; shop", "&quot;cr&ecirc;pe&quot;"),
    "digits that check a card": ("the notes on the back are in pencil", "security code reviews took 120 minutes"),
    "rows in capitals": (
        "CUSTOMER CALLED AGAIN RE: DAMAGED SINK",
        "CLIENT MTLS HANDSHAKE FAILED",
        "Client nginx is restarted every night.",
        "CUSTOMER CHURN IS DOWN THIS QUARTER",
    ),
    "patients": (
        "Pt afebrile overnight, tolerating PO.",
        "pt hypotensive was given fluids",
        "Patient normotensive, euvolemic, reports no pain.",
    ),
    "new phones": (
        "its broken, new number needed",
        "this is lame from the start",
        "its a new number",
    ),
    "bank statements": (
        "PAYMENT TO A SAVINGS ACCOUNT",
        "TRANSFER FROM A CURRENT ACCOUNT",
        "COPY FROM X TABLE TO Y TABLE",
    ),
    "mentions and nicks": (
        "<html>\nhi there",
        "<none> is printed if there is no tag",
        "everyone has joined the channel",
        "the module has joined the list of deprecated ones",
        "* nginx has left no trace",
    ),
    "names of DICOM and HL7": (
        "ADT^A01 and ADT^A08 are both accepted",
        "git reset --soft HEAD^ and then HEAD^^",
        "OBX|GLU^Glucose^L||mg/dL",
        "flags ^= mask^other, foo^bar",
    ),
    "names beside mail addresses": (
        'From: "Support Team" <noreply>',
        '"Red, Green" <b>colours</b> are both allowed',
    ),
    "logins": (
        "log in as a user and / or an admin",
        "the login is at /auth / see docs",
        "credentials are username / password pairs",
    ),
    "names that are words": (
        "can hope alone fix this?",
        "when dawn gets close we leave",
        "did bill collectors call you",
        "is summer coming early",
        "grant was late this year, says the council",
        "Will the job run before June ends?",
        "the cook made it with Pepper",
    ),
    "dates": (
        "the 2nd of each month",
        "in the '90s the third of them left",
        "May the second of these be true",
        "on the first of the two days",
    ),
    "ages above 89": (
        "ninety-six tests passed",
        "at ninety degrees the valve opens",
        "it took 93 years, and 95 percent of the load",
        "93 F outside today",
    ),
    "names in other scripts": (
        "the Arabic word for book is كتاب",
        "rename the button to 保存",
        "the label is under 设置 in the menu",
        "the verb belongs to Ελληνικά grammar lists",
        "The Ω resistor and α-tocopherol measured 5 µg",
        "// 初始化 the connection pool",
        '"box.cancel": "取消"',
        "The phrase привет means hello",
    ),
}


def _pairs(table: dict[str, tuple[str, ...]]) -> list[object]:
    return [pytest.param(text, id=f"{kind}-{number}") for kind in table for number, text in enumerate(table[kind])]


@pytest.mark.parametrize("marked", _pairs(FOUND))
def test_finds_the_whole_of_each_secret(marked: str) -> None:
    text, secrets, at = "", [], 0
    for match in re.finditer("⟦(.*?)⟧", marked, re.S):
        text += marked[at : match.start()]
        secrets.append((len(text), len(text) + len(match[1])))
        text += match[1]
        at = match.end()
    text += marked[at:]
    found = {at for start, end, _ in find_identifiers(text) for at in range(start, end)}
    assert secrets
    for start, end in secrets:
        assert {at for at in range(start, end) if text[at].isalnum()} <= found, text[start:end]


@pytest.mark.parametrize("text", _pairs(CLEAN))
def test_leaves_texts_that_look_alike(text: str) -> None:
    assert not find_identifiers(text)


@pytest.mark.parametrize(
    "piece",
    [
        "pt ab ",
        "its ab new ",
        "FPO A ",
        "FPO AB A & ",
        "new number ab ",
        "AB CD^",
        "login as a / ",
        "-!- a ",
        '"Ab, Cd" <a@b> ',
        "<ab> hi\n",
        "caller ab ",
        "account 1 ",
        "seller a.",
        "pick up Ab ",
        "numbers on the back are ",
        "민 a ",
        "Ab and Cd ",
        "Ab Cd, who a ",
        "Grace from ",
        "&ouml;",
    ],
)
def test_reads_a_hundred_kilobytes_of_its_worst_text_in_time(piece: str) -> None:
    began = time.process_time()
    find_identifiers(piece * (100_000 // len(piece)))
    assert time.process_time() - began < 5
