"""Offsets are contiguous but for reported gaps; compacted topics have holes by design."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class AcceptedOffsetsHaveNoHoles(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "missing_offsets"
    max_value: float = 0
    description: str = (
        "No offset is missing between accepted batches and markers, except where a gap in the source was"
        " reported."
    )
