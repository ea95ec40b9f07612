"""Prefect tasks: a line for each stage."""
