"""A run on a copy of an idle broker's log, compared with the broker's replies."""

from typing import Any

from spark_jobs.flow import Step
from spark_jobs.run import RunOutcome
from tests.broker.beliefs import (
    BrokerFacts,
    differing_decisions,
    differing_offsets,
    differing_producers,
    differing_records,
    differing_transactions,
)
from tests.broker.groups import GroupOffsets, differing_groups
from tests.broker.promises import expect_none
from tests.broker.runs import Lake

Rows = list[dict[str, Any]]


def expect_agreement(
    lake: Lake,
    outcome: RunOutcome,
    facts: BrokerFacts,
    truth: Rows,
    *,
    name: str,
    groups: GroupOffsets,
) -> None:
    """Compares records with a consumer's; producers, offsets, transactions, `groups` with the admin API's."""
    expect_none(differing_records(truth, lake.records()), f"tables of {name} hold what a consumer got")
    expect_none(differing_producers(facts, lake.rows("producers")), f"producers of {name}")
    resolved = lake.step_rows(outcome, Step.RESOLVE, "partitions.parquet")
    expect_none(differing_offsets(facts, resolved), f"offsets of {name}")
    transactions = lake.rows("transactions")
    expect_none(differing_transactions(facts, transactions), f"transactions of {name}")
    expect_none(differing_decisions(facts, transactions), f"decisions of {name}")
    expect_none(differing_groups(groups, lake.rows("consumer_offsets")), f"group offsets of {name}")
