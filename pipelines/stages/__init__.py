"""One file per stage, with its `run`. Settings are in `pipelines.settings`, and algorithms in packages of their own."""
