"""The commands of ``reticent``, a file for each group; importing this registers them in the order of the help."""

from flows.commands import job, looking, keeping, reviewing, policies, privacy  # noqa: F401, I001
from flows.commands.common import app

__all__ = ["app"]
