"""The settings of a run: a class for each table of ``reticent.toml``, and the loader that reads the file."""
