"""What a lake can do without: chosen here, removed by whoever holds the lake's lock."""
