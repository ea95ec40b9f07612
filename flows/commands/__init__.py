"""The commands of ``reticent``: one file each."""
