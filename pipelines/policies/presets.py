"""Presets: detectors of the hub by name, each with its policy, revision, labels and threshold.

A preset's name stands where a policy's name may stand (``policies = ["presidio", "openai/privacy-filter"]``). It is
replaced by the policy and its options when settings are read, so keys and artifacts hold what the preset brought. An
option in the settings replaces the preset's. A published preset never changes, because this would change keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipelines.plugins import nearest


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The settings of a detector besides its weights.

    Attributes:
        policy: name of the policy that runs it.
        licence: licence of the weights.
        labels: our label by the label that the model gives, or is asked for.
        threshold: probability from which text is masked.
        revision: commit on the hub. None for the branch main.
        options: more fields of ``[redact]``.
    """

    policy: str
    licence: str
    labels: Mapping[str, str]
    threshold: float
    revision: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def _labels(**ours: str) -> dict[str, str]:
    """Returns our label by the model's label, from the model's labels by ours."""
    return {name: label for label, names in ours.items() for name in names.split()}


PRESETS: Final[Mapping[str, Preset]] = {
    "openai/privacy-filter": Preset(
        policy="token_classifier",
        options={"token_classifier_aggregation": "any"},
        licence="Apache-2.0",
        revision="7ffa9a043d54d1be65afb281eddf0ffbe629385b",
        threshold=0.5,
        labels=_labels(
            PERSON="private_person",
            ADDRESS="private_address",
            DATE="private_date",
            EMAIL_ADDRESS="private_email",
            PHONE_NUMBER="private_phone",
            URL="private_url",
            ID_NUMBER="account_number",
            PASSWORD="secret",  # noqa: S106 - a label
        ),
    ),
    "nationaldesignstudio/rampart": Preset(
        policy="token_classifier",
        options={"token_classifier_aggregation": "any"},
        licence="CC-BY-4.0",
        threshold=0.3,
        labels=_labels(
            PERSON="GIVEN_NAME SURNAME",
            ADDRESS="BUILDING_NUMBER STREET_NAME SECONDARY_ADDRESS ZIP_CODE",
            LOCATION="CITY STATE",
            EMAIL_ADDRESS="EMAIL",
            PHONE_NUMBER="PHONE",
            URL="URL",
            ID_NUMBER="TAX_ID BANK_ACCOUNT ROUTING_NUMBER GOVERNMENT_ID PASSPORT DRIVERS_LICENSE",
        ),
    ),
    "nvidia/gliner-PII": Preset(
        policy="gliner",
        licence="NVIDIA Open Model License",
        threshold=0.3,
        labels=_labels(
            PERSON="first_name last_name",
            ORG="company_name",
            LOCATION="city county state country coordinate",
            ADDRESS="street_address postcode",
            PHONE_NUMBER="phone_number fax_number",
            EMAIL_ADDRESS="email",
            URL="url",
            IP_ADDRESS="ipv4 ipv6 mac_address",
            USERNAME="user_name",
            PASSWORD="password pin cvv api_key http_cookie",  # noqa: S106 - labels
            DATE="date date_of_birth date_time time age",
            ID_NUMBER="ssn national_id tax_id customer_id employee_id unique_id medical_record_number "
            "health_plan_beneficiary_number certificate_license_number account_number bank_routing_number swift_bic "
            "credit_debit_card license_plate vehicle_identifier device_identifier biometric_identifier",
            ATTRIBUTE="gender race_ethnicity religious_belief political_view sexuality blood_type language occupation "
            "employment_status education_level",
        ),
    ),
    "fastino/gliner2-privacy-filter-PII-multi": Preset(
        policy="gliner",
        licence="Apache-2.0",
        revision="1cb4166094dc58fa8d836429f060d6c95f62b495",
        threshold=0.5,
        labels=_labels(
            PERSON="person full_name first_name middle_name last_name",
            LOCATION="city state_or_region country",
            ADDRESS="address street_address postal_code",
            PHONE_NUMBER="phone_number",
            EMAIL_ADDRESS="email",
            IP_ADDRESS="ip_address",
            USERNAME="username",
            PASSWORD="password secret api_key access_token recovery_code card_cvv",  # noqa: S106 - labels
            DATE="date_of_birth sensitive_date document_date expiration_date transaction_date card_expiry",
            ID_NUMBER="government_id national_id_number passport_number drivers_license_number license_number tax_id "
            "tax_number bank_account account_number routing_number iban payment_card card_number account_id "
            "sensitive_account_id",
        ),
    ),
}
"""Presets by the model's name on the hub."""


def expand(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces names of presets among the policies by what they stand for.

    Args:
        settings: fields of ``[redact]`` as they were given, not yet validated.

    Raises:
        ValueError: a name looks like a model's, and there is no such preset, or two presets need the same policy.
    """
    expanded = dict(settings)
    chosen: dict[str, str] = {}

    def policy_of(name: Any) -> Any:
        if not isinstance(name, str) or "/" not in name:
            return name
        if name not in PRESETS:
            raise ValueError(
                f"'{name}' is no preset; {nearest(name, PRESETS)}name any other model of the hub in token_classifier "
                "or gliner, and that policy here"
            )
        policy = PRESETS[name].policy
        if chosen.setdefault(policy, name) != name:
            raise ValueError(f"'{chosen[policy]}' and '{name}' are both run by the policy '{policy}': name one of them")
        return policy

    for where in ("policies", "also_levels"):
        if isinstance(given := expanded.get(where), list | tuple):
            run_by = [(name, policy_of(name)) for name in given]
            own = [name for name, policy in run_by if name is policy]
            brought = dict.fromkeys(policy for name, policy in run_by if name is not policy and policy not in own)
            expanded[where] = (*own, *brought)
    if "conservative" in expanded:
        expanded["conservative"] = policy_of(expanded["conservative"])
    for policy, name in chosen.items():
        preset = PRESETS[name]
        if expanded.get(policy) is None:
            expanded |= {policy: name, f"{policy}_revision": expanded.get(f"{policy}_revision", preset.revision)}
        expanded.setdefault(f"{policy}_labels", dict(preset.labels))
        expanded.setdefault(f"{policy}_threshold", preset.threshold)
        expanded = {**preset.options, **expanded}
    return expanded
