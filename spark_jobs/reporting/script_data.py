"""Data that a page loads on demand: JSON in a script of one call, since pages opened as files may not fetch.

Values are escaped: none can end the script or start another.
"""

import json
from typing import Any

BEGIN, END = b"onceover.take(", b");\n"
_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}
"""JSON has these characters only inside of strings."""


def to_script(name: str, value: Any) -> bytes:
    """A script that hands `value` over under `name`; ASCII only, so also without U+2028."""
    text = json.dumps([name, value], separators=(",", ":"), allow_nan=False)
    return BEGIN + text.translate(_ESCAPED).encode("ascii") + END


def to_constant(name: str, value: Any) -> bytes:
    """A script that defines `name` for the scripts after it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return f"onceover.{name} = {text.translate(_ESCAPED)};\n".encode("ascii")


def from_script(data: bytes) -> Any:
    """The value again."""
    return json.loads(data.removeprefix(BEGIN).removesuffix(END))[1]
