"""Canonical JSON: equal values have equal bytes and digests on every machine."""

import hashlib
import json
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no spaces, ASCII only; ends without a newline."""
    return _ENCODER.encode(value).encode("ascii")


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
