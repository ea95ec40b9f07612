"""Around the flows: a run is specified, begun, shown and ended; its stages are wired, or fetched without a flow."""
