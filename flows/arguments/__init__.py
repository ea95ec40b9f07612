"""Arguments and help of all commands, by group. Importing this package registers the commands.

Each command's work has a file of its own in `flows.commands`, which is imported when you call the command.
"""

# isort: off
# The order of these imports is the order of the commands in the help.
from flows.arguments import run, maintenance, inspect, policies, privacy, releasing, reviewing
from flows.arguments.common import app

__all__ = ["app", "inspect", "maintenance", "policies", "privacy", "releasing", "reviewing", "run"]
