"""The library: pure algorithms, stages and the artifact store. Imports no orchestrator (Prefect, Dask, Ray)."""
