"""Prefect tasks: one thin module per stage."""
