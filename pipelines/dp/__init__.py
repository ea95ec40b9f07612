"""The privacy engine: clipped gradient sums in one backward pass, and the optimizer and sampler around them."""
