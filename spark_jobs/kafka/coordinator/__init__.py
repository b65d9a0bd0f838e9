"""The transaction coordinator's log, folded."""
