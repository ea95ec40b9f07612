"""Everyday English: which words are common, and when they stand as such."""
