"""Stages of the audit: attacks on a trained model."""
