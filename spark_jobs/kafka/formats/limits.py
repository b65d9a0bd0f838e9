"""How much memory foreign bytes may cost: counts are bounded by the bytes that carry them, these are not."""

from dataclasses import dataclass

from spark_jobs.kafka.errors import BadCompression, LimitExceeded

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


# What a decompression may cost, and where its bytes stand for the message if it fails.


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """At most `limit` bytes of output; `source` and `position` name the compressed bytes."""

    limit: int
    source: str
    position: int

    def check(self, size: int) -> None:
        """Refuses an output of `size` bytes beyond the limit: called before the bytes are kept."""
        if size > self.limit:
            raise LimitExceeded(
                source=self.source,
                position=self.position,
                expected=f"at most {self.limit} bytes after decompression",
                found=f"{size} or more",
            )

    def corrupt(self, expected: object, found: object, at: int = 0) -> BadCompression:
        """The error to raise for a stream that breaks at byte `at`."""
        return BadCompression(source=self.source, position=self.position + at, expected=expected, found=found)
