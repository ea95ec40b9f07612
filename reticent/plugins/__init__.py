"""What plug-ins of other packages are written with, a module for each kind; `docs/extending.md` has an example of each.

All but `reticent.plugins.training` and `reticent.plugins.layers` are light, since settings are checked with them; and
artifacts of a plug-in depend on the modules that it imports only.
"""
