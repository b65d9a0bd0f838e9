"""Every recording that came with the repository is reproduced to the last field."""

from pathlib import Path

import pytest

from tests.recordings.__main__ import main, recordings_in
from tests.recordings.compare_recording import compare_recording
from tests.recordings.left_out import FED_IN, LEFT_OUT
from tests.recordings.recording import read_recording

DATA = Path(__file__).parent / "data"
RECORDINGS = tuple(recordings_in(DATA))


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: folder.name)
def test_the_replay_gives_every_answer_and_every_byte_of_the_broker(folder: Path) -> None:
    comparison = compare_recording(read_recording(folder))
    assert [str(difference) for difference in comparison.differences] == []


def test_all_kinds_of_recordings_are_there() -> None:
    recordings = [read_recording(folder) for folder in RECORDINGS]
    assert any(recording.conversations and recording.directory for recording in recordings)
    assert any(recording.conversations and not recording.directory for recording in recordings)
    assert any(recording.directory and not recording.conversations for recording in recordings)


def test_the_command_replays_a_folder_of_recordings_and_ends_with_the_sum(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([str(DATA / "expiry"), str(DATA / "scenarios")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "expiry: 20 requests, 0 differences",
        "scenarios: 306 requests, 0 differences",
        lines[-1],
    ]
    assert lines[-1] == "326 requests, 0 differences"


def test_a_folder_without_a_recording_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    reported = capsys.readouterr()
    assert str(tmp_path) in reported.err
    assert reported.out == "0 requests, 0 differences\n"


def test_explain_names_every_field_that_is_left_out_or_fed_in_with_its_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--explain"]) == 0
    reported = capsys.readouterr().out
    assert all(note.name in reported and note.reason in reported for note in (*LEFT_OUT, *FED_IN))
