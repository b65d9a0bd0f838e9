"""`onceover inspect`: any Kafka file or log directory as a readable table or as JSON lines."""
