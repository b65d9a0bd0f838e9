"""A process that keeps Spark warm between the tasks of a night, and the way to ask it for a step."""
