"""Everyday English: lists of common words, and rules that separate their everyday use from names."""
