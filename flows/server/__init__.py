"""Prefect's server: embedded or deployed, its password, its work pool, and what a run in it may not choose."""
