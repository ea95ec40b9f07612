"""Arguments and help of all commands, by group; importing this registers them in the order of the help.

What a command does stands in a file of its own in `flows.commands`, imported when it is called.
"""

from flows.arguments import job, keeping, looking, policies, privacy, releasing, reviewing
from flows.arguments.common import app

__all__ = ["app", "job", "keeping", "looking", "policies", "privacy", "releasing", "reviewing"]
