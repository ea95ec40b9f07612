"""Synthetic text: rows that a released model writes to a public plan, and what the trusted side counts in them."""
