"""The record of every release: which documents it read, what it spent, and who signed it."""
