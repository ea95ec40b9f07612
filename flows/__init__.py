"""Prefect flows that read like the algorithm, the settings, and the command line."""
