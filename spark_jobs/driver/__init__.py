"""A process that keeps Spark running between the tasks of a run, and its client."""
