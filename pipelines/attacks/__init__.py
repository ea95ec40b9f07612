"""Attacks on trained models, and what they show. Pure algorithms: results hold numbers, never a text of the corpus."""
