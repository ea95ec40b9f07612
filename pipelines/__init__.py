"""The library: pure algorithms, stages and the artifact store. Knows no orchestrator and no environment variable."""
