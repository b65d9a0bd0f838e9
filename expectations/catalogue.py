"""All suites, in the order in which they are judged and shown."""

from expectations.suite import Suite
from expectations.suites.batches import BATCHES
from expectations.suites.records import RECORDS
from expectations.suites.runs import RUNS
from expectations.suites.sources import SOURCES
from expectations.suites.states import STATES
from expectations.suites.transactions import TRANSACTIONS

SUITES: tuple[Suite, ...] = (SOURCES, BATCHES, RECORDS, TRANSACTIONS, STATES, RUNS)
