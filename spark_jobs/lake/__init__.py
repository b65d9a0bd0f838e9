"""The lake: stores, files that appear whole, run folders, the state chain, Iceberg tables."""
