"""Column widths of a record's text line, shared by `inspect.record_lines` and its compiled twin."""

OFFSET_WIDTH = 12
TIMESTAMP_WIDTH = 24
KEY_WIDTH = 24
VALUE_WIDTH = 80
HEADER_WIDTH = 24
HEADERS_SHOWN = 4
"""More headers than these are only counted."""
