r"""Bytes for display: short, printable, and without terminal control sequences.

Printable characters stand for themselves, every other byte as `\xNN`. The twin of `kernels.preview`.
"""

ELLIPSIS = "…"
ESCAPED_WIDTH = 16
"""Columns that one character takes at most: four bytes, each as `\\xNN`."""
_INVISIBLE = (
    (0x7F, 0xA0), (0xAD, 0xAD), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF),
)  # fmt: skip
"""Ranges of characters that move, hide or reorder their surroundings."""
_ESCAPED = range(0xDC80, 0xDD00)
"""Where Python puts bytes that are no UTF-8."""


def preview(data: bytes | None, limit: int) -> str:
    """At most `limit` columns of `data`, and an ellipsis if there is more; null and empty are
    distinguished.
    """
    if data is None:
        return "null"
    return preview_text(data[: 4 * limit + 4].decode(errors="surrogateescape"), limit) if data else '""'


def preview_text(text: str, limit: int) -> str:
    """At most `limit` columns of `text`, and an ellipsis if there is more."""
    shown: list[str] = []
    used = 0
    for character in text:
        cell = _shown(character)
        if used + len(cell) > limit:
            return "".join(shown) + ELLIPSIS
        shown.append(cell)
        used += len(cell)
    return "".join(shown)


def _shown(character: str) -> str:
    point = ord(character)
    if point in _ESCAPED:
        return f"\\x{point - 0xDC00:02x}"
    if point >= 0x20 and not any(first <= point <= last for first, last in _INVISIBLE):
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode())
