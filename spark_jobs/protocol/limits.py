"""How much memory foreign bytes may cost: counts are bounded by the bytes that carry them, these are not."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes that only a configuration can bound."""

    decompressed_bytes: int = 256 * 1024 * 1024
    """Of one batch: a broker takes batches of 1 MiB by default, and few records shrink by more than 100."""


DEFAULT_LIMITS = Limits()
