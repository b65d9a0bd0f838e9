"""No producer id is claimed by two transactional ids."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class ProducerIdsHaveOneOwner(ExpectColumnValuesToBeBetween):
    column: str = "shared_producer_ids"
    max_value: float = 0
    description: str = ExpectationName.PRODUCER_IDS_HAVE_ONE_OWNER.sentence
