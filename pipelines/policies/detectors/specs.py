"""What the built-in policies are: one description each, light to import. Their code is in the other modules here.

The options of a policy are a model of their own (`pipelines.policies.options`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipelines.policies import labels
from pipelines.policies.options import (
    BuiltInOptions,
    ClassifierOptions,
    GlinerOptions,
    KeywordsOptions,
    NamesOptions,
    PresidioOptions,
    RegexOptions,
    TokenClassifierOptions,
)
from pipelines.policies.protocol import PolicySpec

LOW_LABELS: Final = frozenset({"PERSON", "ORG", "DATE", "GPE", "LOC"})
"""The four low-level kinds: person, organisation, date, location (which OntoNotes splits into GPE and LOC)."""

HIGH_LABELS: Final = LOW_LABELS | {
    *("CARDINAL", "EVENT", "FAC", "LANGUAGE", "LAW", "MONEY", "NORP", "ORDINAL"),
    *("PERCENT", "PRODUCT", "QUANTITY", "TIME", "WORK_OF_ART"),
    "MISC",
}
"""All 18 entity types of OntoNotes 5, and the type MISC of spaCy's models for other languages than English."""

OTHER_CORPORA: Final[Mapping[str, str]] = {"PER": "PERSON"}
"""Our label for types of entities in other corpora, such as WikiNER, which the models of most languages learnt."""

_ENTITIES: Final[Mapping[str, str]] = {
    "PERSON": labels.PERSON,
    "ORG": labels.ORGANISATION,
    **dict.fromkeys(("GPE", "LOC", "FAC"), labels.LOCATION),
    **dict.fromkeys(("DATE", "TIME"), labels.DATE),
    **dict.fromkeys(("CARDINAL", "MONEY", "ORDINAL", "PERCENT", "QUANTITY"), labels.NUMBER),
    **dict.fromkeys(("EVENT", "LANGUAGE", "LAW", "MISC", "NORP", "PRODUCT", "WORK_OF_ART"), labels.OTHER),
}
"""The label of reviews that each of them counts as."""

_CONTEXTUAL: Final[Mapping[str, str]] = {
    **_ENTITIES,
    **dict.fromkeys(("PROPN", "PRON", "SUBJ", "OBJ", "VERB", "ROOT"), labels.OTHER),
}

_PRESIDIO: Final[Mapping[str, str]] = {
    "PERSON": labels.PERSON,
    **dict.fromkeys(("EMAIL", "EMAIL_ADDRESS", "PHONE_NUMBER", "URL", "IP_ADDRESS", "MAC_ADDRESS"), labels.CONTACT),
    **dict.fromkeys(("ABA_ROUTING_NUMBER", "CREDIT_CARD", "CRYPTO", "IBAN_CODE", "ID", "MEDICAL_LICENSE"), labels.ID),
    **dict.fromkeys(("UK_NHS", "UK_NINO", "UK_PASSPORT", "UK_VEHICLE_REGISTRATION", "US_BANK_NUMBER"), labels.ID),
    **dict.fromkeys(("US_DRIVER_LICENSE", "US_ITIN", "US_MBI", "US_NPI", "US_PASSPORT", "US_SSN"), labels.ID),
    **dict.fromkeys(("ES_NIE", "ES_NIF", "IT_DRIVER_LICENSE", "IT_FISCAL_CODE", "IT_IDENTITY_CARD"), labels.ID),
    **dict.fromkeys(("IT_PASSPORT", "IT_VAT_CODE"), labels.ID),
    **dict.fromkeys(("LOCATION", "UK_POSTCODE"), labels.LOCATION),
    "ORGANIZATION": labels.ORGANISATION,
    **dict.fromkeys(("AGE", "DATE_TIME"), labels.DATE),
    "NRP": labels.OTHER,
}
"""Of Presidio's recognisers for seven languages; one of your own, and of another country, is named in the settings."""

_IDENTIFIERS: Final[Mapping[str, str]] = {
    "PERSON": labels.PERSON,
    **dict.fromkeys(("PASSWORD", "SECRET_KEY"), labels.CREDENTIAL),
    **dict.fromkeys(("EMAIL_ADDRESS", "IP_ADDRESS", "MAC_ADDRESS", "PHONE_NUMBER", "USERNAME"), labels.CONTACT),
    **dict.fromkeys(("CODE", "CREDIT_CARD", "IBAN_CODE", "ID_NUMBER", "LICENSE_PLATE"), labels.ID),
    "DATE_OF_BIRTH": labels.DATE,
}

_FIELDS: Final[Mapping[str, str]] = {
    "PERSON": labels.PERSON,
    **dict.fromkeys(("PASSWORD", "SECRET_KEY"), labels.CREDENTIAL),
    **dict.fromkeys(("EMAIL_ADDRESS", "USERNAME"), labels.CONTACT),
    "ID_NUMBER": labels.ID,
    "ADDRESS": labels.LOCATION,
    "DATE": labels.DATE,
}

_FLAGS: Final = ("BARE", "CAPITAL", "CHARACTER", "NAME_WORD", "NUMBER_WORDS", "TIES", "WORD")
"""Why the conservative policy flags a sentence."""

_HERE: Final = "pipelines.policies.detectors"
_PARSED: Final = frozenset({"ner", "parser", "tagger", "attribute_ruler"})

SPECS: Final[Mapping[str, PolicySpec]] = {
    spec.name: spec
    for spec in (
        PolicySpec(
            name="low_entity",
            reference=f"{_HERE}.entities:LowEntityPolicy",
            description="persons, organisations, dates and locations, found by a language model's entity recogniser",
            components=frozenset({"ner"}),
            labels=LOW_LABELS,
            review_labels={label: _ENTITIES[label] for label in LOW_LABELS},
        ),
        PolicySpec(
            name="high_entity",
            reference=f"{_HERE}.entities:HighEntityPolicy",
            description="all 18 kinds of named entity that the OntoNotes corpus knows, found by a language model's "
            "entity recogniser",
            components=frozenset({"ner"}),
            labels=HIGH_LABELS,
            review_labels=_ENTITIES,
        ),
        PolicySpec(
            name="low_contextual",
            reference=f"{_HERE}.contextual:LowContextualPolicy",
            description="all named entities, proper nouns, pronouns, and the subjects and objects of sentences",
            components=_PARSED,
            review_labels=_CONTEXTUAL,
        ),
        PolicySpec(
            name="high_contextual",
            reference=f"{_HERE}.contextual:HighContextualPolicy",
            description="as low_contextual, and all verbs",
            components=_PARSED,
            review_labels=_CONTEXTUAL,
        ),
        PolicySpec(
            name="jft_code_low",
            reference=f"{_HERE}.contextual:JftCodeLowPolicy",
            description="all named entities, proper nouns, pronouns, and what the dependency parse labels as some kind "
            "of subject or object, as the code of Just Fine-tune Twice decides it",
            components=_PARSED,
            review_labels=_CONTEXTUAL,
        ),
        PolicySpec(
            name="jft_code",
            reference=f"{_HERE}.contextual:JftCodePolicy",
            description="as jft_code_low, and verbs without auxiliaries, and the root of each parse",
            components=_PARSED,
            review_labels=_CONTEXTUAL,
        ),
        PolicySpec(
            name="digits",
            reference=f"{_HERE}.digits:DigitsPolicy",
            description="every token that holds a digit",
            is_stable=True,  # a digit stays a digit: another one in its place changes nothing that is masked, or not
            labels=frozenset({"DIGITS"}),
            review_labels={"DIGITS": labels.NUMBER},
        ),
        PolicySpec(
            name="customersim",
            reference=f"{_HERE}.customersim:CustomerSimPolicy",
            description="names, addresses, phone numbers, order numbers and tracking numbers of customers, by pattern",
            labels=frozenset({"NAME", "ADDRESS", "PHONE", "ORDER", "TRACKING"}),
            review_labels={
                "NAME": labels.PERSON,
                "ADDRESS": labels.LOCATION,
                "PHONE": labels.CONTACT,
                **dict.fromkeys(("ORDER", "TRACKING"), labels.ID),
            },
        ),
        PolicySpec(
            name="addresses",
            reference=f"{_HERE}.addresses:AddressesPolicy",
            description="street addresses, post boxes and postcodes, by pattern",
            labels=frozenset({"ADDRESS"}),
            review_labels={"ADDRESS": labels.LOCATION},
        ),
        PolicySpec(
            name="identifiers",
            reference=f"{_HERE}.identifiers.policy:IdentifiersPolicy",
            description="codes, long numbers, user names, passwords, keys and tokens, mail and machine addresses, "
            "IBANs, licence plates, and announced or listed names of persons, by pattern",
            labels=frozenset(
                {
                    *("CODE", "CREDIT_CARD", "DATE_OF_BIRTH", "EMAIL_ADDRESS", "IBAN_CODE", "ID_NUMBER", "IP_ADDRESS"),
                    *("LICENSE_PLATE", "MAC_ADDRESS", "PASSWORD", "PERSON", "PHONE_NUMBER", "SECRET_KEY", "USERNAME"),
                }
            ),
            review_labels=_IDENTIFIERS,
        ),
        PolicySpec(
            name="fields",
            reference=f"{_HERE}.fields.policy:FieldsPolicy",
            description="values of fields in JSON, tables, markup, logs and settings, by the name of the field, and "
            "secrets that words announce in many languages",
            labels=frozenset(_FIELDS),
            review_labels=_FIELDS,
        ),
        PolicySpec(
            name="regex",
            reference=f"{_HERE}.regex:RegexPolicy",
            description="what the patterns in the settings match (the patterns are not shown)",
            packages=("regex",),
            options=RegexOptions,
            requires=("patterns",),
        ),
        PolicySpec(
            name="keywords",
            reference=f"{_HERE}.keywords:KeywordsPolicy",
            description="the keywords of each domain",
            options=KeywordsOptions,
            requires=("keywords",),
        ),
        PolicySpec(
            name="names",
            reference=f"{_HERE}.names:NamesPolicy",
            description="the names on a list of the settings (the list is not shown)",
            options=NamesOptions,
            requires=("names", "names_file"),
            labels=frozenset({"NAME"}),
            review_labels={"NAME": labels.PERSON},
        ),
        PolicySpec(
            name="presidio",
            reference=f"{_HERE}.presidio:PresidioPolicy",
            description="personal data, found by Microsoft Presidio's recognisers",
            components=frozenset({"ner"}),
            packages=("presidio-analyzer", "phonenumbers"),
            options=PresidioOptions,
            review_labels=_PRESIDIO,
        ),
        PolicySpec(
            name="propagate",
            reference=f"{_HERE}.propagate:PropagatePolicy",
            description="every further mention, in the same document, of what another policy found",
            reads_documents=True,
        ),
        PolicySpec(
            name="speakers",
            reference=f"{_HERE}.speakers:SpeakersPolicy",
            description="names of a document's speakers, and parts of them, in the text of its rows",
            reads_documents=True,
            reads_speakers=True,
            labels=frozenset({"SPEAKER"}),
            review_labels={"SPEAKER": labels.PERSON},
        ),
        PolicySpec(
            name="classifier",
            reference=f"{_HERE}.classifier:ClassifierPolicy",
            description="what a trained classifier takes for sensitive",
            is_fitted=True,
            reads_context=True,
            packages=("torch", "transformers", "tokenizers"),
            options=ClassifierOptions,
            requires=("classifier",),
        ),
        PolicySpec(
            name="noisy_entities",
            reference=f"{_HERE}.noisy_entities:NoisyEntitiesPolicy",
            description="persons, handles, places and organisations in informal English, found by a small model that "
            "comes with the package",
            reads_context=True,
            packages=("torch", "transformers", "tokenizers"),
            labels=frozenset({"LOCATION", "ORG", "PERSON", "UNREAD"}),
            review_labels={
                "PERSON": labels.PERSON,
                "ORG": labels.ORGANISATION,
                "LOCATION": labels.LOCATION,
                "UNREAD": labels.OTHER,
            },
        ),
        PolicySpec(
            name="token_classifier",
            reference=f"{_HERE}.token_classifier:TokenClassifierPolicy",
            description="what a token-classification model of your own finds: of Hugging Face transformers, or spaCy's",
            is_fitted=True,
            reads_context=True,
            packages=("torch", "transformers", "tokenizers", "onnxruntime"),
            options=TokenClassifierOptions,
            requires=("token_classifier",),
        ),
        PolicySpec(
            name="gliner",
            reference=f"{_HERE}.gliner:GlinerPolicy",
            description="the kinds of secrets that the settings name, found by a GLiNER model of your own",
            is_fitted=True,
            reads_context=True,
            packages=("torch", "transformers", "tokenizers", "gliner", "gliner2"),
            options=GlinerOptions,
            requires=("gliner",),
        ),
        PolicySpec(
            name="conservative",
            reference=f"{_HERE}.conservative:ConservativePolicy",
            description="a sentence counts as public only if every word of it is an everyday word, used as one",
            labels=frozenset(_FLAGS),
            review_labels=dict.fromkeys(_FLAGS, labels.OTHER),
        ),
        PolicySpec(
            name="calibrated",
            reference=f"{_HERE}.calibrated:CalibratedPolicy",
            description="a sentence counts as public only if every word of it is a known one, and none scores like a "
            "part of a secret where it stands, by two models that were fitted on public labelled text",
            is_fitted=True,
            packages=("torch", "transformers", "tokenizers"),
            labels=frozenset({*_FLAGS, "PHRASE", "CONTEXT", "ENTITY"}),
            review_labels=dict.fromkeys((*_FLAGS, "PHRASE", "CONTEXT", "ENTITY"), labels.OTHER),
        ),
    )
}
"""Built-in policies by name, from those of the entity levels on."""

POLICY_FIELDS: Final = ("model", "language", *BuiltInOptions.model_fields)
"""Fields of ``[redact]`` that say how policies of a name find, and not which ones are asked."""
