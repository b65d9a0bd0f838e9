"""Where batches come from: one module per kind of source behind one interface (`source.SourceReader`)."""
