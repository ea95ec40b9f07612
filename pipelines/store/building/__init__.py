"""How artifacts are planned, looked up and built."""
