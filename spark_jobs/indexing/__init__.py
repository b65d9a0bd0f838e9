"""What a worker of `index` does: walk through byte ranges of objects and write a row per batch."""
