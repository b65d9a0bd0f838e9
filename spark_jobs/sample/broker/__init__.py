"""A broker and a coordinator in memory, for the sample and for tests: no I/O, like `kafka/`."""
