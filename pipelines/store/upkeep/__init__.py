"""Maintenance of a store: garbage collection, forgetting, mirrors and views."""
