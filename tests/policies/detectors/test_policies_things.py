"""Texts about things, in which the default masks nothing, and texts that only look alike."""

from __future__ import annotations

import pytest
from support.default_masks import masked


@pytest.mark.parametrize(
    "text",
    [
        "Ulcer: L shin, 3 x 2 cm, grade 2, fibrinous 40%, no smell.",
        "Disc bulge at L3/4 with narrowing. Modic changes at L4/S1.",
        "Hb 10.8, MCV 71, ferritin 5, plt 310. Repeat later.",
        "Door opens at nine.\nMAXIMUM = 12\nLIMIT 9000\nfor (x = 0; x < 5; x++) {}",
        "Old tokens are revoked. The key is shown again never.",
        "Bell's palsy and Addison' disease were excluded.",
        "Boyle's first law was checked with a pump.",
        "The Friedman rank-sum test gave no difference.",
        "The Cache-Control header tells proxies what to keep.",
        "A lily floats on the pond, and reeds stand by the wall.",
        "The ledger passes to the Buyer when the price is paid.",
        "Tighten the nut to 18 N·m and replace the seal (part 22-3190).",
        "The pull-up is 4.7 kΩ, the product 380 bp.",
        "API_TOKEN=<change-me>\nDB_PASSWORD=<your_password>",
        "store:\n  vaultkeeper_password: ${VAULTKEEPER_PASSWORD}",
        "const user = await loadUser(req.body.key);\nconsole.log(user);",
        'version = "1.2.0"\nlicense = "ISC"',
        ".card:focus { margin: 0 3px 9px; }\n.box { width: 20px; }",
        "for i in range(3):\n    total += values[i]\n    print(2015, total)",
        "colour,weight,price\nteal,40,12.50\nochre,17,9.00",
        "Dates are written as DD/MM/YYYY, times as HH:MM:SS.",
        "Who may apply: any firm with a licence. Attach Form W-9.",
        "The ACME 30 mm clamp fits it.",
        "The fair begins at 10 Saturday morning and ends at 4.",
        "A new password was chosen by the system.",
        "The password is shown below the box.",
        "We saw a robin and a lily near a willow.",
        "A patsy floats on the pond, and reeds stand by the wall.",
        "the ADA 5 rule",
        "password=<password>",
        'license: "Zlib"',
        "The ford river runs to the north sea.",
        "for (int i = 0; i < n; i++) {\n  year = 1998;\n}",
        "Set R12 to 4.7 kΩ.",
        "Part number 88-1204-C fits most pumps.",
        "Route QX 14 22 today",
    ],
)
def test_a_text_about_things_has_no_mask(text: str) -> None:
    assert masked(text) == ""


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("They returned to Anfield, which had undergone a £20m redevelopment, on Saturday against Chelsea.", "against"),
        ("The ships were ordered for the Royal Navy of Britain as a reply to Germany's new Kaiser class.", " of "),
    ],
)
def test_a_word_beside_a_find_is_no_further_find(text: str, word: str) -> None:
    """The model reads a placeholder in place of the find, and takes the next word for its family name."""
    assert word not in masked(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("thanks wanjiru cook", "wanjiru cook"),
        ("not nora mcskimming!! pls get it back", "nora mcskimming"),
        ("text aunty wanjiru we are running late", "wanjiru"),
        ("the coach called about the hall", ""),
        ("my name is wanjiru baker and i have a question", "wanjiru baker"),
    ],
)
def test_a_family_name_in_small_letters_staysmasked(text: str, name: str) -> None:
    assert masked(text) == name


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Deliver to 12 Kestrel Rise 4 today.", "12 Kestrel Rise"),
        ("She lives at 14, rue des Lilas 75011 Paris.", "14"),
        ("12 Friday Street, Leicester", "12 Friday Street"),
        ("Send it to L2/45 Clarence Street, Sydney NSW 2000.", "45 Clarence Street"),
        ("The password is sunshine", "sunshine"),
        ("the password is wicked77", "wicked77"),
        ("Mrs Graves' second test was late.", "Graves"),
        ("Ask Priya Raman about the second test.", "Priya Raman"),
        ("a robin told me. Robin Hale signed the form.", "Robin Hale"),
        ("API_TOKEN=<9fJb2LmVx81R>", "9fJb2LmVx81R"),
        ("anna_password: hunter22xyz", "hunter22xyz"),
        ("user = kwabena", "kwabena"),
        ('"license": "D4471982"', "D4471982"),
        ("i moved to Leeds in 2015 and i like it", "2015"),
        ("name,price,size\nMireille Okonjo,12.50,40\nTunde Bako,9.00,38", "Mireille Okonjo"),
        ("My account, 4471, is locked.", "4471"),
        ("Name on card: HOPE A LINDQVIST", "HOPE A LINDQVIST"),
        ("HALIMA A DUBOIS signed it. It was the last one.", "HALIMA A DUBOIS"),
        ("Signed by A DUBOIS on the ferry.", "DUBOIS"),
        ("CALL THE HALIMA AT NINE", "HALIMA"),
        ("mate, the robin owes me 40 quid", "robin"),
        ("i wrote for i in range(9) in leeds in 2014", "2014"),
        ("F4471 was shown", "F4471"),
    ],
)
def test_a_text_that_looks_alike_keeps_its_mask(text: str, secret: str) -> None:
    assert secret in masked(text)
