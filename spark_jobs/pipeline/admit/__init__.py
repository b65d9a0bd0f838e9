"""`admit`: a verdict for every batch, an offset for every accepted one."""
