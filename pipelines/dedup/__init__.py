"""Exact deduplication of sentences: hash keys, a Bloom filter for candidates, and an exact comparison."""
