"""The command line, run as a user runs it."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from spark_jobs import commands
from spark_jobs.cli import COMMANDS, LazyGroup, app, docstring_of
from tests.sample.log_directory import write_sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sample")
    write_sample(directory)
    return directory


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spark_jobs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_lists_the_commands_and_imports_none_of_them() -> None:
    check = (
        "import sys; from typer.testing import CliRunner; from spark_jobs.cli import app;"
        "print(CliRunner().invoke(app, ['--help']).stdout);"
        "print([name for name in sys.modules if name.startswith(('spark_jobs.', 'pyarrow', 'numpy'))])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert "inspect" in done.stdout
    assert done.stdout.splitlines()[-1] == "['spark_jobs.cli']"


def test_every_command_is_listed_with_its_own_help() -> None:
    group = get_command(app)
    assert isinstance(group, LazyGroup)
    for name, command in group.commands.items():
        assert command.name == name or hasattr(command, "commands")
        assert inspect.cleandoc(command.help or "") == docstring_of(name)


def test_every_module_of_a_command_is_listed() -> None:
    named = set()
    for path in Path(commands.__path__[0]).glob("[!_]*.py"):
        text = path.read_text()
        if f"\ndef {path.stem}(" in text or f"\n{path.stem} = typer.Typer(" in text:
            named.add(path.stem.replace("_", "-"))
    assert named == set(COMMANDS)


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("onceover 0.")


def test_inspect_runs_as_a_module(sample: Path) -> None:
    done = run("inspect", sample)
    assert done.returncode == 0, done.stderr
    assert "orders-1: 1 open transaction" in done.stdout


def test_a_path_that_is_no_kafka_file_is_named_the_others_shown_and_the_exit_code_is_1(
    sample: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("nothing of Kafka's, but long enough to be read as a header")
    done = run("inspect", tmp_path / "notes.txt", tmp_path / "absent", sample / "orders-0")
    assert done.returncode == 1
    assert f"error: {tmp_path / 'notes.txt'}: not a Kafka file" in done.stderr
    assert f"error: {tmp_path / 'absent'}: there is no such file or directory" in done.stderr
    assert "last stable offset 8" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough_ends_the_program_silently(sample: Path) -> None:
    program = f"{sys.executable} -m spark_jobs inspect --json --records {sample}"
    done = subprocess.run(
        f"{program} {sample} | head -1", shell=True, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["value"] == "b3JkZXIgMQ=="
    assert "Traceback" not in done.stderr


def test_records_go_to_the_output_and_remarks_aside(sample: Path) -> None:
    done = run("inspect", sample, "--records", "--json", "--isolation", "read_committed")
    values = [json.loads(line)["offset"] for line in done.stdout.splitlines()]
    assert values == [0, 1, 4, 0, *range(15)]
    assert "warning: " in done.stderr


def test_an_unknown_isolation_is_refused_with_what_is_allowed(sample: Path) -> None:
    done = run("inspect", sample, "--isolation", "serializable")
    assert done.returncode == 2
    assert "read_committed" in done.stderr


def test_a_progress_bar_goes_to_the_standard_error(sample: Path) -> None:
    done = run("inspect", sample / "orders-0", "--progress", "--json", "--records")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 4


@pytest.mark.parametrize("options", [(), ("--records",), ("--json",), ("--json", "--records")])
def test_every_form_of_output_works_on_an_empty_segment(tmp_path: Path, options: tuple[str, ...]) -> None:
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(b"")
    result = CliRunner().invoke(app, ["inspect", str(segment), *options])
    assert result.exit_code == 0, result.output
