"""The review page: its server, for one browser on this machine, and what it asks for."""
