"""Every partition goes on from the state that the run before handed on."""

from great_expectations.expectations import ExpectColumnValuesToBeBetween

from expectations.remembering import Remembering


class StateChainIsUnbroken(Remembering, ExpectColumnValuesToBeBetween):
    column: str = "state_breaks"
    max_value: float = 0
    description: str = "The run goes on exactly where the one before it stopped, in every partition."
