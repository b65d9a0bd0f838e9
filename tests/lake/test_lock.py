import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from spark_jobs.config.canonical import canonical_json
from spark_jobs.lake.errors import LakeBusy, LockLost
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.layout import LOCKS, lock_key
from spark_jobs.lake.lock import Holder, LakeLock, _create, current_holder, lake_lock
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.process_identity import ProcessIdentity, this_process

SHORT_LEASE_S = 0.4
ELSEWHERE = ProcessIdentity(host="elsewhere", realm="another machine", pid=1, started="1")


def test_the_second_run_is_reported_who_works(store: ObjectStore) -> None:
    with lake_lock(store, purpose="run of 2024-05-01") as lock:
        pid = this_process().pid
        reported = rf"run of 2024-05-01 \(process {pid} on .*\) holds the lock of this lake"
        with (
            pytest.raises(LakeBusy, match=reported) as caught,
            lake_lock(store, purpose="another run"),
        ):
            pytest.fail("two runs hold the lock")
        assert caught.value.transient
        assert current_holder(store) == lock.holder


def test_a_released_lock_is_free(store: ObjectStore) -> None:
    for _ in range(3):
        with lake_lock(store, purpose="run") as lock:
            lock.check()
        assert current_holder(store) is None
    assert len({found.key.partition(".")[0] for found in store.list(LOCKS)}) == 1


def test_a_failed_run_releases_its_lock(lake: FileStore) -> None:
    with pytest.raises(ZeroDivisionError), lake_lock(lake, purpose="run"):
        raise ZeroDivisionError
    assert current_holder(lake) is None


def test_the_lock_of_a_killed_process_is_taken_over_at_once(lake: FileStore) -> None:
    code = (
        "import os, signal, sys;"
        "from spark_jobs.lake.file_store import FileStore;"
        "from spark_jobs.lake.lock import lake_lock;"
        "lake_lock(FileStore(sys.argv[1]), purpose='killed run').__enter__();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, lake.url], check=False)
    assert killed.returncode == -9
    assert lake.stat(lock_key(1)) is not None
    assert current_holder(lake) is None
    with lake_lock(lake, purpose="next run") as lock:
        assert lock.holder.number == 2


def test_a_lock_that_this_process_could_not_release_is_not_in_its_own_way(
    lake: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its store was gone when it ended; a process that lives on, such as a warm driver, tries again later."""
    monkeypatch.setattr(LakeLock, "release", lambda self: None)
    with lake_lock(lake, purpose="first try"):
        assert current_holder(lake) is not None
    assert current_holder(lake) is None
    with lake_lock(lake, purpose="second try") as lock:
        assert lock.holder.number == 2


def test_a_killed_process_that_is_not_reaped_is_dead(lake: FileStore) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        started = _start_of(child.pid)
        identity = replace(this_process(), pid=child.pid, started=started)
        assert identity.lives_for_sure()
        child.kill()
        while _state_of(child.pid) != "Z":
            pass
        assert identity.is_dead_for_sure()
    finally:
        child.kill()
        child.wait()


def test_a_process_number_that_was_given_out_again_is_another_process(lake: FileStore) -> None:
    _leave_lock(lake, replace(this_process(), started="long ago"))
    with lake_lock(lake, purpose="next run") as lock:
        assert lock.holder.number == 2


def test_on_another_machine_a_heartbeat_that_does_not_change_is_death(store: ObjectStore) -> None:
    _leave_lock(store, ELSEWHERE)
    with lake_lock(store, purpose="next run", lease_s=SHORT_LEASE_S) as lock:
        assert lock.holder.number == 2


def test_on_another_machine_a_heartbeat_that_moves_is_life(store: ObjectStore) -> None:
    foreign, stop = LakeLock(store, _leave_lock(store, ELSEWHERE)), threading.Event()

    def beat() -> None:
        count = 0
        while not stop.wait(SHORT_LEASE_S / 10):
            count += 1
            foreign.beat(count)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with (
            pytest.raises(LakeBusy, match="foreign run"),
            lake_lock(store, purpose="x", lease_s=30 * SHORT_LEASE_S),
        ):
            pytest.fail("the lock of a living run was taken")
    finally:
        stop.set()
        thread.join()


def test_a_run_that_was_taken_for_dead_finds_out(lake: FileStore) -> None:
    sleeper = LakeLock(lake, _leave_lock(lake, ELSEWHERE))
    sleeper.check()
    with (
        lake_lock(lake, purpose="next run", lease_s=SHORT_LEASE_S),
        pytest.raises(
            LockLost, match=r"the lease of foreign run .* expired; next run .* holds the lock of the lake now"
        ),
    ):
        sleeper.check()


def test_of_many_that_find_a_dead_lock_exactly_one_takes_it(store: ObjectStore) -> None:
    _leave_lock(store, replace(this_process(), started="long ago"))
    start, done, won, refused = threading.Barrier(8), threading.Event(), [], []

    def contend(number: int) -> None:
        start.wait()
        try:
            with lake_lock(store, purpose=f"run {number}"):
                won.append(number)
                done.wait(60)
        except LakeBusy:
            refused.append(number)
            if len(refused) == 7:
                done.set()

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(refused)) == (1, 7)


def test_a_late_contender_for_a_number_that_was_cleared_does_not_win(lake: FileStore) -> None:
    """It saw lock 1 dead; meanwhile 2 was taken, released and cleared, and 3 is held."""
    _leave_lock(lake, replace(this_process(), started="long ago"))
    with lake_lock(lake, purpose="second"):
        pass
    with lake_lock(lake, purpose="third") as third:
        assert lake.stat(lock_key(2)) is None
        assert not _create(lake, Holder(number=2, purpose="late", token="t", process=this_process()))
        assert current_holder(lake) == third.holder
        third.check()


def _leave_lock(lake: ObjectStore, process: ProcessIdentity) -> Holder:
    """A lock whose holder said nothing more."""
    holder = Holder(number=1, purpose="foreign run", token="token", process=process)
    assert lake.put_if_absent(lock_key(1), canonical_json(asdict(holder)))
    return holder


def _start_of(pid: int) -> str:
    return _fields(pid)[19]


def _state_of(pid: int) -> str:
    return _fields(pid)[0]


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
