"""`onceover inspect` on tiered storage shows what it shows of the same log directory."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from tests.sources.tiers import Aiven, partitions_of, private_key, uploads_of, uuid_of, write_local

DATA = Path(__file__).parents[1] / "recordings" / "data" / "oracle_A" / "data"
KEY = private_key()


def lines(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["inspect", "--json", *arguments])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def closed_records() -> list[dict[str, Any]]:
    ends = {each.name: uploads_of(each)[-1].end for each in partitions_of(DATA)}
    found = lines("--records", "--isolation", "read_committed", str(DATA))
    return [row for row in found if row["offset"] < ends[f"{row['topic']}-{row['partition']}"]]


@pytest.mark.parametrize("layout", ["local", "aiven"])
def test_records_of_a_tier_are_those_of_the_closed_segments(layout: str, tmp_path: Path) -> None:
    aiven = Aiven(is_compressed=True, public_key=KEY.public_key())
    (tmp_path / "key.pem").write_bytes(KEY.export_key())
    for directory in partitions_of(DATA):
        for upload in uploads_of(directory):
            write_local(tmp_path / "tier", upload) if layout == "local" else aiven.write(
                tmp_path / "tier", upload
            )
    found = lines(
        "--records",
        "--isolation",
        "read_committed",
        "--encryption-key",
        f"key-1=file:{tmp_path}/key.pem",
        str(tmp_path / "tier"),
    )
    assert found == closed_records()
    assert found


def test_a_partition_and_its_files_are_shown_under_their_own_paths(tmp_path: Path) -> None:
    uploads = uploads_of(DATA / "orc-1")
    paths = [write_local(tmp_path, upload) for upload in uploads]
    partition, *_ = lines(str(paths[0].parent))
    assert (partition["kind"], partition["path"]) == ("partition", str(paths[0].parent))
    snapshot, *_ = lines(str(paths[0].with_suffix(".snapshot")))
    assert (snapshot["path"], snapshot["end_offset"]) == (
        str(paths[0].with_suffix(".snapshot")),
        uploads[0].end,
    )
    epochs, *_ = lines(str(paths[0].with_suffix(".leader_epoch_checkpoint")))
    assert epochs["kind"] == "leader_epoch_checkpoint"


def test_a_missing_key_is_an_error(tmp_path: Path) -> None:
    Aiven(public_key=KEY.public_key()).write(tmp_path, uploads_of(DATA / "orc-1")[0])
    result = CliRunner().invoke(app, ["inspect", str(tmp_path)])
    assert result.exit_code == 1
    assert "encrypted with the key 'key-1'" in result.output


def test_a_key_itself_is_refused() -> None:
    result = CliRunner().invoke(app, ["inspect", "--encryption-key", "key-1=-----BEGIN", "x"])
    assert result.exit_code == 2
    assert "ID=file:PATH" in result.output


def test_two_logs_of_a_topic_are_not_mixed(tmp_path: Path) -> None:
    path = write_local(tmp_path, uploads_of(DATA / "orc-1")[0])
    write_local(tmp_path, uploads_of(DATA / "orc-1")[0])
    other = path.parent.with_name(f"orc-1-{uuid_of('another')}")
    path.parent.rename(other)
    write_local(tmp_path, uploads_of(DATA / "orc-1")[0])
    result = CliRunner().invoke(app, ["inspect", str(tmp_path)])
    assert result.exit_code == 1
    assert "several topic ids" in result.output
    assert lines(str(other))[0]["topic"] == "orc"
