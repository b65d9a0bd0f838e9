"""Columns of a record's line for readers, shared by the plain and the compiled writer."""

OFFSET_WIDTH = 12
TIMESTAMP_WIDTH = 24
KEY_WIDTH = 24
VALUE_WIDTH = 80
HEADER_WIDTH = 24
HEADERS_SHOWN = 4
"""More headers than these are only counted."""
