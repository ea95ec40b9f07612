"""Training in several processes, on one machine or on several: start, rendezvous, supervision and network exchanges."""
