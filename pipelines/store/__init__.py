"""The artifact store: keys, publish, locks, verified hits, garbage collection."""
