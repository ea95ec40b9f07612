"""Text of a training as encoded records, with their vocabulary."""
