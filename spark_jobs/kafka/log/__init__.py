"""The log of one partition: segments, copies, what a read_committed consumer sees."""
