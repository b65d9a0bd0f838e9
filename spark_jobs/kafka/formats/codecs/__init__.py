"""One module per codec: payloads decompressed as Kafka's own readers do it."""
