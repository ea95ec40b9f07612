"""What a trained model scores on held-out text."""
