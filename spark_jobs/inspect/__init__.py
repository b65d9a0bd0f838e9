"""`onceover inspect`: files in, tables or JSON lines out."""
