"""Prefect tasks, one line for each stage."""
