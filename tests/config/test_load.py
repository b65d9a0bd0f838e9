from pathlib import Path

import pytest
from pydantic import ValidationError

from spark_jobs.config.load import InvalidConfig, load_settings, parse_settings
from spark_jobs.config.settings import KafkaSettings, Settings, TopicSettings
from spark_jobs.config.sources import OnGap, SourceKind
from spark_jobs.kafka.formats.limits import RecordLimits
from spark_jobs.kafka.formats.record_batch import TimestampType
from spark_jobs.kafka.producers.producer_state import NUM_BATCHES_TO_RETAIN, TransactionVersion

BASE = Path("/srv/onceover")
SMALLEST = """lake: lake
sources:
  - {name: gateway, kind: capture, root: capture}
"""


def parse(text: str) -> Settings:
    return parse_settings(text, name="o.yaml", base=BASE)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        parse(text)
    return str(caught.value).splitlines()


def source(line: str) -> str:
    return f"lake: lake\nsources:\n  - {{name: a, kind: capture, root: in, {line}}}\n"


def test_the_smallest_file_has_kafkas_defaults() -> None:
    settings = parse(SMALLEST)
    assert (settings.kafka.producer_id_expiration_ms, settings.kafka.transaction_max_timeout_ms) == (
        86_400_000,
        900_000,
    )
    assert settings.kafka.transaction_version is TransactionVersion.TV2
    assert settings.sources[0].kind is SourceKind.CAPTURE
    assert settings.sources[0].on_gap is OnGap.REJECT


def test_the_window_is_kafkas() -> None:
    assert KafkaSettings().cached_batches == NUM_BATCHES_TO_RETAIN


def test_relative_paths_start_at_the_files_own_directory(tmp_path: Path) -> None:
    file = tmp_path / "sub" / "onceover.yaml"
    file.parent.mkdir()
    file.write_text(SMALLEST.replace("root: capture", "root: ../capture"))
    settings = load_settings(file)
    assert (settings.lake, settings.sources[0].root) == (
        str(tmp_path / "sub/lake"),
        str(tmp_path / "capture"),
    )


def test_s3_addresses_lose_only_their_last_slash() -> None:
    settings = parse(SMALLEST.replace("lake: lake", "lake: s3://bucket/a/b/"))
    assert settings.lake == "s3://bucket/a/b"


def test_settings_cannot_be_changed() -> None:
    settings = parse(SMALLEST)
    with pytest.raises(ValidationError, match="frozen"):
        settings.lake = "elsewhere"


@pytest.mark.parametrize(
    ("text", "size"),
    [("67108864", 2**26), ("64MiB", 2**26), ("'64 mib'", 2**26), ("1GB", 10**9), ("8192 B", 8192)],
)
def test_sizes_may_inherit_a_unit(text: str, size: int) -> None:
    assert parse(f"{SMALLEST}limits: {{range_bytes: {text}}}").limits.range_bytes == size


def test_limits_reach_the_protocol() -> None:
    limits = "{decompressed_bytes_per_batch: 1MiB, records_per_batch: 7, headers_per_record: 3}"
    settings = parse(f"{SMALLEST}limits: {limits}")
    expected = RecordLimits(decompressed_bytes=2**20, records_per_batch=7, headers_per_record=3)
    assert settings.limits.protocol == expected


def test_a_topics_settings_come_by_name_then_pattern_then_default() -> None:
    text = """topics:
  "order*": {message_timestamp_type: LogAppendTime}
  orders: {cleanup_policy: compact}
"""
    settings = parse(SMALLEST + text)
    assert settings.topic("orders").message_timestamp_type is TimestampType.CREATE_TIME
    assert settings.topic("orders-eu").message_timestamp_type is TimestampType.LOG_APPEND_TIME
    assert settings.topic("clicks") == TopicSettings()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("lake: lake\n", "o.yaml:1: sources: not found, but required"),
        ("lake: lake\nsources: []\n", "o.yaml:2: sources: found [], allowed: a list of at least one item"),
        ("lake: lake\nsources: 3\n", "o.yaml:2: sources: found 3, allowed: a list"),
        ("- a\n", "o.yaml:1: (whole file): found ['a'], allowed: keys with values"),
        (
            SMALLEST.replace("capture,", "captur,"),
            (
                "o.yaml:3: sources[0].kind: found 'captur', allowed: 'capture', 'broker-log', 'cluster' or "
                "'tiered'"
            ),
        ),
        (f"{SMALLEST}lak: x\n", "o.yaml:4: lak: unknown key, did you mean 'lake'?"),
        (
            f"{SMALLEST}limits: {{worker_memory: 1GiB}}\n",
            (
                "o.yaml:4: limits.worker_memory: removed in this version: nothing ever read it; remove the"
                " key, and bound what a task holds by limits.range_bytes and by how many tasks run at once"
                " (such as spark.master local[2])"
            ),
        ),
        (
            f"{SMALLEST}spark: {{shuffle_partitions: 16}}\n",
            (
                "o.yaml:4: spark.shuffle_partitions: removed in this version: results do not depend on it;"
                " remove the key, or set spark.sql.shuffle.partitions below spark.conf"
            ),
        ),
        (
            source("topics: {includ: [a]}"),
            "o.yaml:3: sources[0].topics.includ: unknown key, did you mean 'include'?",
        ),
        (
            f"{SMALLEST}topics: {{orders: {{nonsense: 1}}}}\n",
            (
                "o.yaml:4: topics.orders.nonsense: unknown key, "
                "allowed: message_timestamp_type, cleanup_policy, gaps, value, fields, required, "
                "on_recreate, dedup, freshness"
            ),
        ),
        (
            f"{SMALLEST}limits: {{stage_threads: 0}}\n",
            "o.yaml:4: limits.stage_threads: found 0, allowed: greater than or equal to 1",
        ),
        (
            f"{SMALLEST}limits: {{stage_threads: '8'}}\n",
            "o.yaml:4: limits.stage_threads: found '8', allowed: a whole number",
        ),
        (
            f"{SMALLEST}limits: {{range_bytes: big}}\n",
            (
                "o.yaml:4: limits.range_bytes: found 'big', "
                "allowed: a number of bytes, such as 1048576, 64MiB or 1GB"
            ),
        ),
        (f"{SMALLEST}kafka: {{cached_batches: 6}}\n", "o.yaml:4: kafka.cached_batches: found 6, allowed: 5"),
        (
            f"{SMALLEST}kafka: {{transaction_version: 2}}\n",
            "o.yaml:4: kafka.transaction_version: found 2, allowed: 'TV0', 'TV1' or 'TV2'",
        ),
        (source("immutable: 'yes'"), "o.yaml:3: sources[0].immutable: found 'yes', allowed: true or false"),
        (
            SMALLEST.replace("lake: lake", "lake: gs://bucket"),
            "o.yaml:1: lake: found 'gs://bucket', allowed: a path, or s3://bucket/prefix",
        ),
        (
            f"{SMALLEST}s3: {{endpoint_url: 'localhost:9000'}}\n",
            (
                "o.yaml:4: s3.endpoint_url: found 'localhost:9000', "
                "allowed: http:// or https:// with a host and nothing after it"
            ),
        ),
        (
            f"{SMALLEST}spark: {{driver_memory: 2GB}}\n",
            (
                "o.yaml:4: spark.driver_memory: found '2GB', "
                "allowed: megabytes or gigabytes as Spark writes them, such as 512m or 2g"
            ),
        ),
    ],
    ids=lambda value: value.rpartition(": ")[0][:60] if value.startswith("o.yaml") else "",
)
def test_an_error_names_line_key_finding_and_what_is_allowed(text: str, line: str) -> None:
    assert problems(text) == [line]


@pytest.mark.parametrize(
    "layout", ["%Y/%m", "%Y-%m-%d-%H", "%y/%m/%d", "%Y/%m/%d/%d", "../%Y/%m/%d", "/%Y/%m/%d", ""]
)
def test_a_date_layout_spells_one_whole_date(layout: str) -> None:
    (line,) = problems(source(f"dates: '{layout}'"))
    assert "sources[0].dates" in line
    assert "such as dt=%Y-%m-%d or %Y/%m/%d" in line


def test_all_errors_come_at_once() -> None:
    text = "lake: 3\nsources:\n  - {name: 'a b', kind: x, root: in}\nlimits: {stage_threads: 0}\nfoo: 1\n"
    keys = [line.split(": ")[1] for line in problems(text)]
    assert keys == ["lake", "sources[0].name", "sources[0].kind", "limits.stage_threads", "foo"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            SMALLEST + "  - {name: gateway, kind: capture, root: other}\n",
            "unique source names ('gateway'",
        ),
        (SMALLEST.replace("root: capture", "root: lake/in"), "a lake apart from every source"),
        (SMALLEST.replace("lake: lake", "lake: capture/lake"), "a lake apart from every source"),
        (source("lookback_days: 3"), "'lookback_days' only together with 'dates'"),
        (
            source("on_gap: park").replace("capture", "broker-log"),
            "'on_gap' only where kind is capture: a broker's log is already decided",
        ),
        (f"{SMALLEST}limits: {{segment_bytes: 1MiB}}", "'segment_bytes' of at least 'max_batch_bytes'"),
    ],
)
def test_settings_that_contradict_one_another_are_refused(text: str, words: str) -> None:
    (line,) = problems(text)
    assert words in line


@pytest.mark.parametrize(
    "line",
    [
        "s3: {secret_access_key: hunter2}",
        "s3: {aws_session_token: hunter2}",
        "s3: {accessKeyId: hunter2}",
        "password: hunter2",
        "spark: {conf: {spark.hadoop.fs.s3a.secret.key: hunter2}}",
        "s3: {region: AKIAIOSFODNN7EXAMPLE}",
        "s3: {endpoint_url: 'https://user:hunter2@host'}",
    ],
)
def test_secrets_are_refused_without_being_repeated(line: str) -> None:
    (problem,) = problems(f"{SMALLEST}{line}\n")
    assert "o.yaml:4" in problem
    assert "use the AWS credential chain" in problem
    assert "hunter2" not in problem
    assert "AKIA" not in problem


def test_a_topic_may_be_called_like_a_secret() -> None:
    assert "access-token-events" in parse(f"{SMALLEST}topics: {{access-token-events: {{}}}}").topics


def test_a_key_is_allowed_only_once() -> None:
    text = f"{SMALLEST}kafka:\n  clock_skew_ms: 1\n  clock_skew_ms: 2\n"
    assert problems(text) == ["o.yaml:6: kafka.clock_skew_ms: found twice, allowed once (first on line 5)"]


@pytest.mark.parametrize(
    "text", ["a: [", "a: b: c", "!!python/object/apply:os.system ['true']", "a: 1\n---\nb: 2"]
)
def test_what_is_not_plain_yaml_is_refused(text: str) -> None:
    (line,) = problems(text)
    assert "o.yaml:" in line
    assert "not valid YAML" in line


def test_broken_yaml_is_not_shown_since_it_could_hold_a_secret() -> None:
    (line,) = problems("s3:\n  secret: [hunter2\nlake: x")
    assert "hunter2" not in line


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"nowhere\.yaml: cannot be read"):
        load_settings(tmp_path / "nowhere.yaml")
