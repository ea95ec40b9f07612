"""Scores of a trained model on held-out text."""
