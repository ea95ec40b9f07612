"""Exact-by-promise sentence deduplication: hash keys, Bloom nomination, exact resolution."""
