"""Signatures that anybody can check: Ed25519 (RFC 8032), with a key that is derived from the store's secret.

The seals and digests of a store are keyed by its secret, so nobody else can check them. A release is signed with a
private key instead, whose public half is part of the release. The key is derived from the secret
(`pipelines.context.derived_key`): only a holder of the secret can sign, and there is no other key to keep or to lose. A
public key reveals nothing about the secret.
"""

from __future__ import annotations

import hashlib

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from pipelines.context import derived_key

_PURPOSE = "signature of releases"
_CHARACTERS = 32


def signing_key(secret: bytes) -> Ed25519PrivateKey:
    """Derives a store's private key from its secret.

    Raises:
        ValueError: the secret is empty.
    """
    return Ed25519PrivateKey.from_private_bytes(derived_key(secret, _PURPOSE))


def public_pem(key: Ed25519PrivateKey) -> bytes:
    """Returns the public key in a form that other tools read: PEM, SubjectPublicKeyInfo."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def read_public_key(pem: bytes) -> Ed25519PublicKey:
    """Reads a public key that `public_pem` wrote.

    Raises:
        ValueError: the text is not an Ed25519 public key.
    """
    try:
        key = load_pem_public_key(pem)
    except UnsupportedAlgorithm as error:
        raise ValueError("a key of another kind") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("a key of another kind")
    return key


def fingerprint_of(key: Ed25519PublicKey) -> str:
    """Returns a key's fingerprint, which people compare: the first 128 bits of SHA-256 of the raw key, as hex digits.

    Making another key with this fingerprint takes about 2^128 tries (a second preimage). The fingerprint is one word,
    because groups of digits in a public report might look like a masked number (`pipelines.gate`).
    """
    raw = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:_CHARACTERS]


def own_fingerprint(secret: bytes) -> str:
    """Returns the fingerprint of the key that a store signs with."""
    return fingerprint_of(signing_key(secret).public_key())


def is_signed(data: bytes, signature: bytes, key: Ed25519PublicKey) -> bool:
    """Checks if the holder of the private key signed these bytes."""
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True
