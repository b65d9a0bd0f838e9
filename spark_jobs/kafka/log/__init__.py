"""The log of one partition: segments, replica copies, the view of a read_committed consumer."""
