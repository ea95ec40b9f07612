"""Partitions on Dask or Ray: what the driver keeps, what a worker checks and builds, and a client of each engine."""
