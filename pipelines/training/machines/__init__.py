"""Training on several machines: how they meet, what crosses between them, and how one that fails ends all."""
