"""Attacks on trained models. Pure algorithms: results hold numbers, never a text of the corpus."""
