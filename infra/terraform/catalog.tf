# The Glue databases that Iceberg's tables are registered in.
resource "aws_glue_catalog_database" "topics" {
  name        = var.topics_database
  description = "One table per Kafka topic, each committed record once."
}

resource "aws_glue_catalog_database" "own" {
  name        = var.own_database
  description = "Onceover's own tables: batches, transactions, producers, quarantine, runs."
}
