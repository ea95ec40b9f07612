"""The labels of reviews: one short list onto which the labels of every policy map.

Policies call what they find by some sixty names, several at once where a mask has several causes. Rates by label have
bounds that hold for all labels at once, so each further label widens all of them. What a policy's labels count as
stands in its spec (`PolicySpec.review_labels`); names that people use elsewhere are in `COMMON`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

PERSON: Final = "PERSON"
CREDENTIAL: Final = "CREDENTIAL"
CONTACT: Final = "CONTACT"
ID: Final = "ID"
LOCATION: Final = "LOCATION"
ORGANISATION: Final = "ORGANISATION"
DATE: Final = "DATE"
NUMBER: Final = "NUMBER"
OTHER: Final = "OTHER"

REVIEW_LABELS: Final = (PERSON, CREDENTIAL, CONTACT, ID, LOCATION, ORGANISATION, DATE, NUMBER, OTHER)
"""The list by default. Of several labels of one mask the first one counts: what says most about who somebody is."""

COMMON: Final[Mapping[str, str]] = {
    **dict.fromkeys(("PER", "NAME", "FIRST_NAME", "LAST_NAME", "FULL_NAME", "TITLE"), PERSON),
    **dict.fromkeys(("PASSWORD", "PIN", "API_KEY", "SECRET", "SECRET_KEY", "TOKEN", "CVV"), CREDENTIAL),
    **dict.fromkeys(("EMAIL", "PHONE", "FAX", "HANDLE", "USER_NAME", "USERNAME", "DOMAIN_NAME"), CONTACT),
    **dict.fromkeys(("ACCOUNT", "BOOKING", "CODE", "CUSTOMER", "INVOICE", "ORDER", "ORDER_ID", "TRACKING"), ID),
    **dict.fromkeys(("PASSPORT", "SSN", "IBAN", "LICENSE_PLATE", "SERIAL", "UUID"), ID),
    **dict.fromkeys(
        ("ADDRESS", "CITY", "COUNTRY", "PLACE", "POSTCODE", "STATE", "STREET", "ZIP", "ZIP_CODE"), LOCATION
    ),
    **dict.fromkeys(("COMPANY", "ORG", "ORGANIZATION"), ORGANISATION),
    **dict.fromkeys(("AGE", "BIRTHDAY", "DATE_OF_BIRTH", "DOB"), DATE),
    **dict.fromkeys(("AMOUNT", "PRICE"), NUMBER),
}
"""Labels of corpora, of patterns in settings, and of reviews before there was a list."""


@dataclass(frozen=True, kw_only=True)
class ReviewLabels:
    """Which label of reviews any other label counts as.

    Attributes:
        names: the list, first ones first; the last takes what nothing else says.
        own: the user's word, by label: it counts before all else, for labels of policies and of `REVIEW_LABELS`.
        declared: what specs of policies say, by policy.
    """

    names: tuple[str, ...] = REVIEW_LABELS
    own: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, label: str, policy: str | None = None) -> str:
        """The label of the list that a label counts as.

        Args:
            label: of a policy's find or of a review; several joined by ``+`` count as their first one in the list.
            policy: that found it, where that is known.
        """
        return self.first((part, policy) for part in label.split("+"))

    def first(self, found: Iterable[tuple[str, str | None]]) -> str:
        """Of several (label, policy), the first one in the list; the last of the list without any."""
        return min((self._one(*pair) for pair in found), key=self.names.index, default=self.names[-1])

    def _one(self, label: str, policy: str | None) -> str:
        if label in self.own:
            return self.own[label]
        if label in self.names:
            return label
        found = self.declared.get(policy or "", {}).get(label) or self._declared_anywhere(label) or COMMON.get(label)
        found = self.own.get(found or OTHER, found)
        return found if found in self.names else self.names[-1]

    def _declared_anywhere(self, label: str) -> str | None:
        """Reviews do not say which policy a label is from; a label that two policies use in two ways is rare."""
        return next((known[label] for _, known in sorted(self.declared.items()) if label in known), None)
