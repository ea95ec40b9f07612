"""Stages of training: the model, its guarantee and the report."""
