"""What plug-ins of other packages are written with, a module for each kind; `docs/extending.md` has an example of each.

The modules are light, since settings are checked with them; and a plug-in's artifacts depend on those it imports only.
"""
