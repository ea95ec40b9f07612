"""The gate: searches text for masked strings before it becomes public."""
