"""Encryption at rest: sealed files, the ring of their keys, and which folders hold nothing else."""
