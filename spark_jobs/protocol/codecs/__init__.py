"""One module per codec (facts §1.7): each reads what Kafka's readers take and writes as Java does."""
