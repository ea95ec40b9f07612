"""What needs a GPU, in slices: ``python -m benchmarks.gpu``. Imports of a cell are those of its own module."""
