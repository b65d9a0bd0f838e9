"""Rows per topic against the median of earlier runs, in either direction."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class VolumeIsAsUsual(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "volume_factor"
    max_value: float = 4
    description: str = (
        "Each topic brings about as many records as in the last runs, not many times more or fewer."
    )
