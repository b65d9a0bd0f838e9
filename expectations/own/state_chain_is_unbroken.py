"""Every partition goes on from the state that the run before handed on."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from spark_jobs.config.audit import ExpectationName


class StateChainIsUnbroken(ExpectColumnValuesToBeBetween):
    column: str = "state_breaks"
    max_value: float = 0
    description: str = ExpectationName.STATE_CHAIN_IS_UNBROKEN.sentence
