"""The command line, and Prefect flows that follow the steps of the algorithm."""
