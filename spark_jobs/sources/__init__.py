"""Sources of batches: one module per kind behind one interface (`source.SourceReader`), and their objects."""
