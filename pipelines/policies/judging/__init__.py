"""Runs policies over rows, in one pass and in several processes. A row is masked whole if a policy fails on it."""
