"""Stages of synthesis: text that a trained model writes, checked before it is published."""
