"""What a decompression may cost, and where its bytes stand for the message if it fails."""

from dataclasses import dataclass

from spark_jobs.protocol.errors import BadCompression, LimitExceeded


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
