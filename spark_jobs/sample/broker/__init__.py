"""A broker and a coordinator in memory, for the sample and for tests: pure as `kafka/`."""
