"""One contract per table: columns, types, meaning, key, file names; one module per step that writes them."""
