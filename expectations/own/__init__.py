"""Onceover's own expectations, one per file; each has a sentence that a data owner understands."""
