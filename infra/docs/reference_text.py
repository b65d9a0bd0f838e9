"""How values and sentences of the code become text of a page."""

import json

BLANK_LINE = "\n\n"


def cell(text: str) -> str:
    """One line, with what would end a cell or begin a tag spelled out."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def plain(value: object) -> str:
    """A value as YAML or a command line has it."""
    if isinstance(value, tuple | dict):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(getattr(value, "value", value))
