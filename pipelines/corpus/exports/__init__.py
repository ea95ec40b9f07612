"""Readers of the files that chat and ticket tools export, one module for each tool."""
