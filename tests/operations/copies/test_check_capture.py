"""Objects that follow the capture format, and each way not to."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.lake.file_store import FileStore
from spark_jobs.operations.check_capture import CaptureCounts, Weight, check_capture
from tests.pipeline.batches import batch, marker

FOLDER = "dt=2026-11-18/orders-0"
Findings = list[tuple[str, str]]


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., Findings]:
    """The findings about a good object and `data` beside it."""

    def check(data: bytes, path: str = f"{FOLDER}/b.batches") -> Findings:
        for key, content in ((f"{FOLDER}/a.batches", batch(0) + batch(1)), (path, data)):
            (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / key).write_bytes(content)
        findings = check_capture(FileStore(str(tmp_path)), "dt=%Y-%m-%d", CaptureCounts())
        return [(f"{each.weight} {each.path}", each.text) for each in findings]

    return check


def test_good_objects_have_no_findings(found: Callable[..., Findings]) -> None:
    assert found(batch(2) + batch(3)) == []
    assert found(b"", f"{FOLDER}/.hidden") == []
    assert found(b"", f"{FOLDER}/_SUCCESS") == []


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "empty"),
        (batch(2)[:-1], "after 0 whole batches"),
        (batch(2) + b"junk", "after 1 whole batches"),
        (batch(2)[:-1] + b"x", "checksum mismatch"),
        (batch(2, at=10) + batch(3, at=11), "a copied segment?"),
    ],
)
def test_a_bad_object_is_a_problem(found: Callable[..., Findings], data: bytes, text: str) -> None:
    ((path, said),) = found(data)
    assert path == f"{Weight.PROBLEM} {FOLDER}/b.batches"
    assert text in said


def test_a_marker_is_a_note(found: Callable[..., Findings]) -> None:
    ((path, said),) = found(batch(2, txn=True) + marker(ControlType.COMMIT))
    assert path.startswith(Weight.NOTE)
    assert "1 markers: the source needs `markers: true`" in said


def test_a_control_batch_that_is_no_marker_is_a_problem(found: Callable[..., Findings]) -> None:
    findings = found(marker(ControlType.LEADER_CHANGE))
    assert findings[0] == (
        f"{Weight.PROBLEM} {FOLDER}/b.batches",
        "the control batch at 0 is no marker of a transaction",
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [("orders-0/b.batches", "do not spell a date"), ("dt=2026-11-18/orders/b", "<topic>-<partition>")],
)
def test_a_misplaced_object_is_a_problem(found: Callable[..., Findings], path: str, text: str) -> None:
    ((where, said),) = found(batch(2), path)
    assert where == f"{Weight.PROBLEM} {path}"
    assert text in said


def answer(position: int, **changes: object) -> bytes:
    line = {"object": "batches", "position": position, "size": 70, "error_code": 0}
    return json.dumps(line | changes).encode() + b"\n"


def test_answers_are_held_against_their_object(found: Callable[..., Findings]) -> None:
    second = len(batch(0))
    path = f"{FOLDER}/_a.answers.jsonl"
    assert found(answer(0) + answer(second, error_code=None), path) == []
    wrong = [
        (answer(0) + answer(second) + answer(1), "line 3: no batch begins at 1"),
        (answer(0) + answer(second) + b"{", "line 3: not JSON"),
        (answer(0) + answer(second) + b"[]", "line 3: not a JSON object"),
        (answer(0) + answer(second) + answer(0, error_code="NONE"), "line 3: expected 'error_code'"),
        (answer(0) + answer(second) + answer(0, object="x"), "line 3: 'object' is neither"),
        (answer(0), "1 batches have no line"),
    ]
    for data, text in wrong:
        ((where, said),) = found(data, path)
        assert where.endswith(path)
        assert said.startswith(text)


def test_the_command_counts_and_exits_with_1_for_problems(
    found: Callable[..., Findings], tmp_path: Path
) -> None:
    found(batch(2)[:-1])
    done = CliRunner().invoke(app, ["check-capture", str(tmp_path)])
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1].startswith("2 objects, 2 batches")
    assert done.stdout.splitlines()[-1].endswith("1 problems, 0 notes")
    wrong = CliRunner().invoke(app, ["check-capture", str(tmp_path), "--dates", "daily"])
    assert (wrong.exit_code, "daily: expected" in wrong.stderr) == (1, True)
    (tmp_path / FOLDER / "b.batches").unlink()
    assert CliRunner().invoke(app, ["check-capture", str(tmp_path), "--json"]).exit_code == 0
