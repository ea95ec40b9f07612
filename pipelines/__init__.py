"""The library: pure algorithms, stages and the artifact store. Knows no orchestrator; only `store.key_env` is read."""
