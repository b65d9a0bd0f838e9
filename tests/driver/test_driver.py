"""The driver keeps Spark warm for tasks, sends them logs and results, and ends when it is idle."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.driver.client import StepFailed, StepInterrupted, ask, run_step, stop_driver
from spark_jobs.driver.protocol import (
    Answer,
    DaysRequest,
    DriverFiles,
    ExpireRequest,
    Failure,
    FetchRequest,
    LogLine,
    Message,
    PlanRequest,
    ReportRequest,
    SourcesRequest,
    StepAnswer,
    StepRequest,
    StopRequest,
    UnsafeDirectory,
    driver_files,
    read_message,
    write_message,
)
from spark_jobs.driver.server import EXIT_ABANDONED, Driver, RequestHandler
from spark_jobs.flow import Step
from spark_jobs.lake.lock import lake_lock
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.progress import RunProgress
from tests.pipeline.index.objects import plain_object
from tests.pipeline.runs import CAPTURE, place_at

TIMEOUT_S = 300


@pytest.fixture(autouse=True)
def own_place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers of these tests are found by these tests only."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("d")))


@pytest.fixture
def request_(tmp_path: Path) -> Iterator[StepRequest]:
    """A run to stage, which needs no Spark."""
    place_at(tmp_path).arrive("dt=2024-05-01/orders-0/a", plain_object(3))
    config = tmp_path / "onceover.yaml"
    config.write_text(CAPTURE)
    request = StepRequest(config=str(config), day=date(2024, 5, 1), step=Step.STAGE, more_steps_follow=True)
    yield request
    stop_driver(request)


def _listen(place: DriverFiles) -> "subprocess.Popen[bytes]":
    """A driver in a process of its own, once it listens."""
    command = [sys.executable, "-m", "spark_jobs.driver", str(place.socket)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not _is_heard(place):
        assert process.poll() is None
    return process


def _is_heard(place: DriverFiles) -> bool:
    """Whether a driver accepts connections; closing one without a request does no harm."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(place.socket)) == 0


@pytest.mark.parametrize(
    "message",
    [
        StepRequest(
            config="a",
            day=date(2024, 5, 1),
            step=Step.ADMIT,
            more_steps_follow=True,
            master="m",
            conf={"k": "v"},
            connections={"AIRFLOW_CONN_K": "v"},
        ),
        SourcesRequest(config="a"),
        FetchRequest(config="a", day=date(2024, 5, 1), source="gateway"),
        ReportRequest(config="a", run_id="r"),
        ExpireRequest(config="a"),
        PlanRequest(config="a", backfill={"first": "2024-05-01"}),
        DaysRequest(config="a", backfill={"first": "2024-05-01"}, after="2024-05-01"),
        StopRequest(),
        LogLine(text="zwölf\nLinien"),
        StepAnswer(run_id="r", worked=True, is_final=False, counts={"batches": 3}),
        Answer(values={"sources": ["gateway"]}),
        Failure(message="no", transient=True, trace="where"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_is_one_line_and_comes_back_as_it_was(message: Message) -> None:
    line = write_message(message)

    assert line.index(b"\n") == len(line) - 1
    assert read_message(line) == message


def test_a_step_is_done_once_and_what_is_said_reaches_the_task(request_: StepRequest) -> None:
    said: list[str] = []

    first = run_step(request_, log=said.append)
    again = run_step(request_, log=said.append)

    assert first.run_id.startswith("2024-05-01-")
    assert (first.worked, again.worked, first.is_final) == (True, False, False)
    assert first.counts["objects"] == again.counts["objects"] == 1
    assert any("1 objects" in line for line in said)


def test_sources_are_named_and_fetched_one_by_one(request_: StepRequest) -> None:
    config, day = request_.config, request_.day

    sources = ask(SourcesRequest(config=config), log=print)["sources"]
    fetched = ask(FetchRequest(config=config, day=day, source=sources[0]), log=print)

    assert sources == ["gateway"]
    assert (fetched["objects"], run_step(request_, log=print).counts["objects"]) == (1, 1)


def test_a_report_needs_neither_a_run_nor_spark(request_: StepRequest, tmp_path: Path) -> None:
    reported = ask(ReportRequest(config=request_.config), log=print)

    assert reported == {"runs": 0}
    assert (tmp_path / "lake" / "dashboard" / "index.html").exists()


def test_a_lake_without_a_retention_keeps_everything(request_: StepRequest) -> None:
    run_step(request_, log=print)

    gone = ask(ExpireRequest(config=request_.config), log=print)

    assert gone == {"runs": 0, "staged_objects": 0, "snapshots": 0, "bytes": 0}


def test_a_plan_names_days_and_reasons_but_no_objects(request_: StepRequest, tmp_path: Path) -> None:
    place_at(tmp_path).finish(1)
    place_at(tmp_path).arrive("dt=2024-05-01/orders-0/late", plain_object(1))
    backfill = BackfillRequest(first=request_.day, last=request_.day).to_plain()

    plan = ask(PlanRequest(config=request_.config, backfill=backfill), log=print)

    [planned] = plan["days"]
    assert (plan["changes"], planned["day"], planned["changes"]) == (True, "2024-05-01", True)
    assert planned["reasons"] == ["1 object that arrived after the run and no run has taken"]


def test_days_that_are_as_they_should_be_need_no_spark(request_: StepRequest, tmp_path: Path) -> None:
    place_at(tmp_path).finish(1)
    backfill = BackfillRequest(first=request_.day, last=request_.day).to_plain()

    assert ask(DaysRequest(config=request_.config, backfill=backfill), log=print) == {"runs": []}


def test_one_driver_serves_all_steps_of_a_lake(request_: StepRequest) -> None:
    run_step(request_, log=print)
    place = driver_files(request_.config, "")
    before = place.socket.stat().st_ino

    run_step(request_, log=print)

    assert place.socket.stat().st_ino == before


def test_another_password_needs_another_driver(request_: StepRequest) -> None:
    asked = [
        ReportRequest(config=request_.config, connections={"AIRFLOW_CONN_KAFKA": password})
        for password in ("first", "second", "first")
    ]
    try:
        sockets = [_socket_after(each) for each in asked]
    finally:
        for each in asked:
            stop_driver(each)
    assert sockets[0] == sockets[2] != sockets[1]


def _socket_after(request: ReportRequest) -> int:
    """The socket of the driver that has answered."""
    ask(request, log=print)
    place = driver_files(
        request.config, "", f"AIRFLOW_CONN_KAFKA={request.connections['AIRFLOW_CONN_KAFKA']}"
    )
    return place.socket.stat().st_ino


def test_a_login_is_in_the_environment_of_the_driver(
    request_: StepRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", "of the first task")
    request = ReportRequest(config=request_.config, connections={"AIRFLOW_CONN_KAFKA": "of Airflow"})
    assert "of Airflow" not in repr(request)

    RequestHandler().do(request, RunProgress(Console(quiet=True)))

    assert os.environ["AIRFLOW_CONN_KAFKA"] == "of Airflow"


def test_the_name_of_a_driver_does_not_show_what_it_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for place in ("one", "one", "other"):
        (tmp_path / place).mkdir(exist_ok=True)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / place))
        names.append(driver_files("config", "password").name)
    assert names[0] == names[1] != names[2]


def test_an_error_that_stays_is_reported_as_it_is(request_: StepRequest) -> None:
    Path(request_.config).write_text("lake: lake\nsource: []\n")

    with pytest.raises(StepFailed, match="source"):
        run_step(request_, log=print)


def test_an_error_that_can_pass_says_so(request_: StepRequest, tmp_path: Path) -> None:
    with (
        lake_lock(place_at(tmp_path).lake, purpose="something else"),
        pytest.raises(StepInterrupted) as error,
    ):
        run_step(request_, log=print)

    assert "something else" in str(error.value)


def test_a_bug_is_reported_with_its_trace_and_the_driver_lives_on(
    request_: StepRequest, tmp_path: Path
) -> None:
    said: list[str] = []
    (tmp_path / "lake").write_text("a file where a directory should be")

    with pytest.raises(StepFailed):
        run_step(request_, log=said.append)
    (tmp_path / "lake").unlink()

    assert run_step(request_, log=said.append).worked


def test_a_driver_whose_task_is_gone_ends_at_once(request_: StepRequest, tmp_path: Path) -> None:
    place = DriverFiles(tmp_path, "d")
    process = _listen(place)
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as lines:
        connection.connect(str(place.socket))
        step = StepRequest(config=request_.config, day=request_.day, step=Step.INDEX, more_steps_follow=True)
        connection.sendall(write_message(step))
        assert isinstance(read_message(lines.readline()), LogLine)

    process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == EXIT_ABANDONED


def test_a_task_whose_driver_dies_hears_that_trying_again_can_help(
    request_: StepRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = driver_files(request_.config, "")
    place.log.write_text("killed for its memory")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.socket))
        listener.listen()
        monkeypatch.setattr(socket.socket, "sendall", lambda self, data: listener.accept()[0].close())

        with pytest.raises(StepInterrupted, match="killed for its memory"):
            run_step(request_, log=print)
    monkeypatch.undo()
    place.socket.unlink()


def test_an_idle_driver_ends_and_leaves_nothing_behind(tmp_path: Path) -> None:
    place = DriverFiles(tmp_path, "d")
    place.log.touch()

    Driver(place, idle_s=0.01).serve()

    assert not place.socket.exists()
    assert not place.log.exists()


def test_a_driver_ends_when_it_is_reported_to(tmp_path: Path) -> None:
    place = DriverFiles(tmp_path, "d")
    process = _listen(place)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(place.socket))
        connection.sendall(write_message(StopRequest()))

    assert process.wait(TIMEOUT_S) == 0
    process.communicate()


def test_a_place_that_others_can_enter_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    driver_files("a").directory.chmod(0o755)

    with pytest.raises(UnsafeDirectory, match="belongs to this user alone"):
        driver_files("a")


def test_the_tasks_side_loads_nothing_heavy() -> None:
    check = "import sys, spark_jobs.driver.client; print({'numpy', 'pyspark', 'pydantic'} & set(sys.modules))"

    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == "set()"
