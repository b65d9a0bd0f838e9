"""Limits on memory for untrusted bytes: sizes that the length of the input does not bound."""

from dataclasses import dataclass

from spark_jobs.kafka.errors import BadCompression, LimitExceeded

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLimits:
    """Sizes that only a configuration can bound."""

    decompressed_bytes: int = 256 * 1024 * 1024
    """Of one batch: a broker accepts 1 MiB by default, and compression by more than 100 is rare."""
    records_per_batch: int = INT32_MAX
    headers_per_record: int = INT32_MAX
    """Unlimited unless configured: the length of the input bounds them already."""


DEFAULT_LIMITS = RecordLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimit:
    """At most `limit` bytes of decompressed output; `source` and `position` are for error messages."""

    limit: int
    source: str
    position: int

    def check(self, size: int) -> None:
        """Raises if an output of `size` bytes exceeds the limit: called before the bytes are kept."""
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
