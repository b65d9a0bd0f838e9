"""One module per codec (facts §1.7): `decompress` reads what Kafka's readers take, `compress` writes what Java writes."""
