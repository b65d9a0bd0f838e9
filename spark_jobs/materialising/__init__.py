"""What the workers of `materialise` do: choose committed batches, read them, decode them, write tables."""
