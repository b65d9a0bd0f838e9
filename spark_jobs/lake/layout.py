"""The layout of a lake.

lake.json                  the lake's id and the location where it was created
objects/ab/ab12…           staged bytes, named by their SHA-256
staging/2024-05-01/        a run being staged: its journal, headers, its manifest once that is fixed
runs/2024-05-01-3f9a…/     one run: inputs.json, then a folder per step with its outputs and _done.json
chain/0000000001.json      the final runs in order; an entry's creation is what makes a run final
state/ab/ab12…             state of partitions between runs, named by its SHA-256
ledger/2024-05-01-3f9a…    when a run started, how long it took, how it ended; nothing else depends on it
locks/0000000001.json      the process that holds the lock of the lake
dashboard/index.html       the site that shows the runs; generated from the above
expiry/topics.orders.json  files of a table that no snapshot references any more, until they are deleted
replays/3f9a….json         decisions to replay quarantined batches or records
sources/live/2024-05-01/   segments that were fetched from a live cluster for a run date
taken/3f9a….parquet        which objects sixteen or more runs have taken; written again where it is missing
id_builds/3f9a….json       how far a build of an index of business ids came; removed when its run is done
"""

from datetime import date

from spark_jobs.flow import Step
from spark_jobs.lake.object_store import join_key

CHAIN = "chain/"
EXPIRY = "expiry/"
ID_BUILDS = "id_builds/"
LAKE_FILE = "lake.json"
LEDGER = "ledger/"
LOCKS = "locks/"
OBJECTS = "objects/"
REPLAYS = "replays/"
RUNS = "runs/"
SOURCES = "sources/"
STAGING = "staging/"
STATE = "state/"
TAKEN = "taken/"


def object_key(sha256: str) -> str:
    """A staged object; equal bytes are stored once."""
    return join_key("objects", sha256[:2], sha256)


def staging_key(day: date, name: str) -> str:
    return join_key("staging", day.isoformat(), name)


def source_key(source: str, day: date | None = None, *parts: str) -> str:
    """What was fetched from a live cluster: of all run dates, or of `day`."""
    return join_key("sources", source, *(() if day is None else (day.isoformat(), *parts)))


def fetched_key(source: str, path: str) -> str:
    """An object of a fetched source by its path in a manifest."""
    return f"{SOURCES}{source}/{path}"


def run_key(run_id: str, *parts: str) -> str:
    return join_key("runs", run_id, *parts)


def step_key(run_id: str, step: Step, *parts: str) -> str:
    return run_key(run_id, step.value, *parts)


def state_key(sha256: str) -> str:
    """A partition's state, its inherited rows, or its gaps."""
    return join_key("state", sha256[:2], sha256)


def taken_key(name: str) -> str:
    return f"{TAKEN}{name}.parquet"


def chain_key(number: int) -> str:
    return f"{CHAIN}{number:010d}.json"


def ledger_key(run_id: str) -> str:
    return join_key("ledger", f"{run_id}.json")


def lock_key(number: int, what: str = "json") -> str:
    return f"{LOCKS}{number:010d}.{what}"


def replay_key(decision: str) -> str:
    return f"{REPLAYS}{decision}.json"


def id_build_key(digest: str) -> str:
    return f"{ID_BUILDS}{digest}.json"


def expiry_key(table: str) -> str:
    return f"{EXPIRY}{table}.json"
