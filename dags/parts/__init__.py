"""What the DAGs are made of; no DAG stands here."""
