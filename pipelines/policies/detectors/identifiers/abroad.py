"""Finds numbers after words that announce them in French, German, Spanish, Portuguese, Italian and Dutch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.first_pass import holds, kind

_CUES: Final = {
    "PHONE_NUMBER": r"tel[eé]fono|telefone|telem[oó]vel|m[oó]vil|celular|cellulare|telefoon(?:nummer)?|mobiel"
    r"|t[eé]l[eé]phone|(?:mon|son|ton|du|de) portable|(?:telefon|handy|mobil|ruf|fax)nummer|handynr\.?|telefonnr\.?",
    "LICENSE_PLATE": r"matr[ií]cula|placa|plaque|immatriculation|targa|kenteken(?:nummer)?|(?:kfz-)?kennzeichen"
    r"|nummernschild",
    "ID_NUMBER": r"s[eé]curit[eé] sociale|seguridad social|seguran[cç]a social|(?:renten|sozial)versicherungsnummer"
    r"|steuer-?(?:id|nummer)|steueridentifikationsnummer|personalausweis(?:nummer)?|reisepass(?:nummer)?|passeport"
    r"|pasaporte|passaporto|passaporte|paspoort(?:nummer)?|burgerservicenummer|codice fiscale"
    r"|partita iva|num[eé]ro fiscal|(?-i:BSN|DNI|NIE|NIF|CPF|CNPJ|SIRET)|carte d'identit[eé]|carta d'identit[aà]",
}
_LINK: Final = (
    r"(?:[ ]{1,2}(?:n[.°ºo]{0,2}|nr|num[eé]ro|n[uú]mero|nummer|ist|lautet|est|es|é|è|is|sono|le|el|il|o|la|de|do|del"
    r"|di|van|von)[.:]?){0,4}[ ]{0,2}[:=]?[ ]{1,2}"
)
_VALUE: Final = r"(?=[^\n]{0,12}\d)[+(]{0,2}[A-Z0-9][A-Z0-9()]{0,24}(?:[ ./-]{1,3}[A-Z0-9][A-Z0-9()]{0,14}){0,10}"
_ANNOUNCED: Final = re.compile(
    "|".join(rf"(?<!\w)(?i:{cues})(?!\w)(?i:{_LINK})(?P<{label}>{_VALUE})(?!\w)" for label, cues in _CUES.items())
)
_FEWEST_DIGITS: Final = 3
# A word of each cue, without accents.
_CUE_WORD: Final = kind(
    re.compile(
        "telefono|telefone|telemovel|movil|celular|cellulare|telefoon|mobiel|telephone|portable|[a-z]*nummer|handynr"
        "|telefonnr|matricula|placa|plaque|immatriculation|targa|kenteken|(?:kfz)?kennzeichen|nummernschild|sociale?"
        "|steuer(?:id)?|personalausweis|reisepass|passeport|pasaporte|passaporto|passaporte|paspoort|fiscale?|iva|bsn"
        "|dni|nie|nif|cpf|cnpj|siret|identit[ea]"
    ).fullmatch
)


def find_announced_abroad(text: str) -> Iterator[Find]:
    """Yields phone numbers, plates and numbers of papers after their names in six languages."""
    for match in _ANNOUNCED.finditer(text) if holds(text, _CUE_WORD) else ():
        label = str(match.lastgroup)
        digits = sum(map(str.isdigit, match[label]))
        if digits >= _FEWEST_DIGITS or (label == "LICENSE_PLATE" and digits):
            yield *match.span(label), label
