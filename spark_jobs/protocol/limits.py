"""How much memory foreign bytes may cost: counts are bounded by the bytes that carry them, these are not."""

from dataclasses import dataclass

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes that only a configuration can bound."""

    decompressed_bytes: int = 256 * 1024 * 1024
    """Of one batch: a broker takes batches of 1 MiB by default, and few records shrink by more than 100."""
    records_per_batch: int = INT32_MAX
    headers_per_record: int = INT32_MAX
    """Bounded by a configuration only where a lake wants it: their bytes bound them anyway."""


DEFAULT_LIMITS = Limits()
