"""Runs policies over rows: in one pass, in several processes, failing closed, until nothing new is found."""
