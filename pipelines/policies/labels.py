"""The labels of reviews: one short list onto which the labels of every policy map.

Policies have some sixty labels, and a mask with several causes has several labels at once. Rates by label have bounds
that hold for all labels at once, so each further label widens all bounds. The spec of a policy maps its labels
(`PolicySpec.review_labels`). `COMMON` maps other common labels.
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
"""The default list. If a mask has several labels, the first one counts, which identifies a person best."""

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
    """A map from any label to a label of reviews.

    Attributes:
        names: list of labels, by rank. The last one is for labels that map to no other.
        own: user's label by label of a policy or of `REVIEW_LABELS`. It has precedence over all other maps.
        declared: maps of the specs, by policy.
    """

    names: tuple[str, ...] = REVIEW_LABELS
    own: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, label: str, policy: str | None = None) -> str:
        """Returns the label of the list that a label maps to.

        Args:
            label: label of a policy's find or of a review. Of several labels joined by ``+``, the first in the list
                counts.
            policy: policy that found it, if known.
        """
        return self.first((part, policy) for part in label.split("+"))

    def first(self, pairs: Iterable[tuple[str, str | None]]) -> str:
        """Maps pairs (label, policy), and returns the first result in the list, or its last label without pairs."""
        return min((self._one(*pair) for pair in pairs), key=self.names.index, default=self.names[-1])

    def _one(self, label: str, policy: str | None) -> str:
        if label in self.own:
            return self.own[label]
        if label in self.names:
            return label
        mapped = self.declared.get(policy or "", {}).get(label) or self._declared_anywhere(label) or COMMON.get(label)
        mapped = self.own.get(mapped or OTHER, mapped)
        return mapped if mapped in self.names else self.names[-1]

    def _declared_anywhere(self, label: str) -> str | None:
        # Reviews do not record the policy of a label. Two policies rarely map one label in two ways.
        return next((known[label] for _, known in sorted(self.declared.items()) if label in known), None)
