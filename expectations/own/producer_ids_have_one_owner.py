"""No producer id is claimed by two transactional ids."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class ProducerIdsHaveOneOwner(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "shared_producer_ids"
    max_value: float = 0
    description: str = (
        "Every producer id belongs to one transactional id; otherwise transactions could be mistaken for"
        " one another."
    )
