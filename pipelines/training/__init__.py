"""Language-model training on public and private shards."""
