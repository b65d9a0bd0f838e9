"""`report`: the data-quality dashboard and metrics."""
