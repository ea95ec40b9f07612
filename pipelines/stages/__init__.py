"""One file per stage: its frozen settings and its `run`; the algorithms live beside this package."""
