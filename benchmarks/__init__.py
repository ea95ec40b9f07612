"""A package of its own, because opacus installs another one under the same name."""
