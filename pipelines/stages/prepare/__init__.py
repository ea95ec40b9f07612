"""Stages of preparation: raw text to redacted, measured, public and private sets."""
