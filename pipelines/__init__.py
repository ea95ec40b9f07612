"""The library: pure algorithms, stages and the artifact store. Imports no orchestrator, reads no environment variable."""
