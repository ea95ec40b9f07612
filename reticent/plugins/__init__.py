"""Names for plug-ins of other packages, a module for each kind. `docs/extending.md` has an example of each.

All modules but `reticent.plugins.training` and `reticent.plugins.layers` import little, because checks of settings load
them. Artifacts of a plug-in depend only on the modules that it imports.
"""
