"""What a store holds: keys, manifests, published artifacts, sessions and runs."""
