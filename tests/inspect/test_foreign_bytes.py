"""Whatever bytes are in a file, `inspect` shows it or says why not; it never fails in any other way."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.inspect.conftest import Inspect
from tests.sample.log_directory import write_sample

NAMES = (
    "00000000000000000000.log",
    "00000000000000000000.snapshot",
    "00000000000000000000.txnindex",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "leader-epoch-checkpoint",
    "replication-offset-checkpoint",
    "partition.metadata",
    "anything",
)
ways = st.sampled_from([(), ("--records",), ("--json",), ("--json", "--records")])
may_park = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


@may_park
@pytest.mark.parametrize("name", NAMES)
@given(data=st.binary(max_size=200), way=ways)
def test_random_bytes_under_any_name(
    inspect: Inspect, tmp_path: Path, name: str, data: bytes, way: list[str]
) -> None:
    (tmp_path / name).write_bytes(data)
    result = inspect(tmp_path / name, *way)
    assert result.exit_code in {0, 1}, result.exception
    assert result.exit_code == 0 or "error" in result.output


@may_park
@given(chance=st.randoms(use_true_random=False), way=ways)
def test_a_log_directory_with_damage_anywhere(
    inspect: Inspect, tmp_path: Path, chance: random.Random, way: list[str]
) -> None:
    write_sample(tmp_path)
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size):
        damaged = bytearray(path.read_bytes())
        for _ in range(chance.randrange(4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged[: chance.randrange(len(damaged) + 1)])
    for target in (tmp_path, tmp_path / "orders-0", tmp_path / "__transaction_state-0"):
        result = inspect(target, *way, "--isolation", "read_committed")
        is_refused = "not a Kafka file" in result.output or ("--records" in way and "error" in result.output)
        assert result.exit_code == 0 or is_refused, result.exception


def test_a_partition_that_holds_bytes_and_no_batch_is_refused_as_its_file_is(
    inspect: Inspect, tmp_path: Path
) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    file = directory / NAMES[0]
    file.write_bytes(b"\x7f" * 5000)
    for path in (directory, file):
        result = inspect(path)
        assert result.exit_code == 1
        assert "not a Kafka file: it does not begin with a record batch" in result.output
    file.write_bytes(b"")
    assert inspect(directory).exit_code == 0
