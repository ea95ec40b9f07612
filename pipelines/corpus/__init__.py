"""From input files to sentences: readers, partitions, tokenise-then-split, and the CustomerSim simulator."""
