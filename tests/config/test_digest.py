import pytest

from tests.config.test_load import SMALLEST, parse, source


def test_the_digest_changes_with_what_decides_verdicts() -> None:
    texts = [
        SMALLEST,
        f"{SMALLEST}kafka: {{transaction_version: TV1}}",
        f"{SMALLEST}limits: {{max_batch_bytes: 1MiB}}",
        f"{SMALLEST}topics: {{a: {{cleanup_policy: compact}}}}",
        f"{SMALLEST}publish: whole_transactions",
        source("on_gap: park"),
        source("markers: true"),
        source("markers: false"),
    ]
    assert len({parse(text).digest for text in texts}) == len(texts)


@pytest.mark.parametrize(
    "text",
    [
        SMALLEST.replace("lake: lake", "lake: s3://bucket/lake"),
        SMALLEST.replace("root: capture", "root: s3://bucket/capture, immutable: true"),
        f"{SMALLEST}spark: {{master: 'spark://host:7077', app_name: other}}",
        f"{SMALLEST}limits: {{range_bytes: 1MiB, stage_threads: 64}}",
        f"{SMALLEST}audit: {{volume_factor: 9, severities: {{volume_is_as_usual: critical}}}}",
        f"{SMALLEST}s3: {{endpoint_url: 'http://localhost:9000'}}",
    ],
)
def test_the_digest_does_not_depend_on_where_and_how_fast(text: str) -> None:
    assert parse(text).digest == parse(SMALLEST).digest


def test_the_digest_does_not_depend_on_an_objective_for_freshness() -> None:
    without, with_objective = (
        parse(f"{SMALLEST}topics: {{a: {{gaps: hold{more}}}}}") for more in ("", ", freshness: 26h")
    )
    assert with_objective.topic("a").freshness
    assert with_objective.digest == without.digest


@pytest.mark.parametrize(
    ("others", "entry", "is_same"),
    [
        ("", "orders: {freshness: 26h}", True),
        ("", "'o*': {freshness: 26h}", True),
        ("visits: {cleanup_policy: compact}", "'*': {freshness: 26h}", True),
        ("'*': {gaps: hold}", "orders: {freshness: 26h}", True),
        ("'*': {cleanup_policy: compact}", "orders: {freshness: 26h}", False),
        ("'or*': {cleanup_policy: compact}", "'o*': {freshness: 26h}", False),
    ],
)
def test_an_entry_that_only_gives_an_objective_is_not_decisive(
    others: str, entry: str, is_same: bool
) -> None:
    without = parse(f"{SMALLEST}topics: {{{others}}}")
    with_entry = parse(f"{SMALLEST}topics: {{{', '.join(filter(None, (entry, others)))}}}")
    assert (with_entry.digest == without.digest) is is_same


def test_how_many_partitions_the_coordinators_log_has_is_decisive() -> None:
    assert parse(f"{SMALLEST}kafka: {{transaction_state_partitions: 1}}").digest != parse(SMALLEST).digest


def test_the_digest_stays_what_it_was_when_this_was_written() -> None:
    assert parse(SMALLEST).digest == "56d94d540970c975c0bb4eb16e6c3bbab7026641737ef80291d4dc0643ca42d1"
