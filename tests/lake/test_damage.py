"""Files of the lake's own that changed on the disk: each is named with what to do, and none is believed."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.config.canonical import canonical_json
from spark_jobs.flow import Step
from spark_jobs.lake.chain import make_final, read_chain
from spark_jobs.lake.errors import Damaged
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.layout import chain_key, ledger_key, lock_key, staging_key, step_key
from spark_jobs.lake.ledger import Ledger, list_runs
from spark_jobs.lake.lock import Holder, current_holder
from spark_jobs.lake.manifest import Manifest, read_manifest
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.process_identity import this_process
from spark_jobs.lake.run_folder import DONE, EMPTY_STATE, RunFolder, RunInputs, read_inputs
from spark_jobs.pipeline.stage.worker import NOTES, Notes

DAY = date(2024, 5, 1)
INPUTS = RunInputs(day=DAY, manifest="m" * 64, config="c" * 64, state_in=EMPTY_STATE)
RUN = RunFolder(FileStore("/nowhere"), INPUTS).run_id


def _filled(lake: FileStore) -> None:
    folder = RunFolder(lake, INPUTS)
    folder.create()
    folder.finish(Step.STAGE, outputs=())
    Ledger(lake).started(INPUTS)
    make_final(lake, read_chain(lake), INPUTS, state_out="s" * 64, last_step=Step.ADMIT, outputs="o")
    holder = Holder(number=1, purpose="run", token="t", process=this_process())
    lake.put(lock_key(1), canonical_json(asdict(holder)))
    notes = Notes(lake, DAY)
    notes.add("object", "sha", 1)
    notes.write()


READERS: dict[str, tuple[Callable[[FileStore], str], Callable[[FileStore], object]]] = {
    "chain": (lambda lake: chain_key(1), read_chain),
    "lock": (lambda lake: lock_key(1), current_holder),
    "ledger": (lambda lake: ledger_key(RUN), list_runs),
    "inputs": (lambda lake: f"runs/{RUN}/inputs.json", lambda lake: read_inputs(lake, RUN)),
    "mark": (lambda lake: step_key(RUN, Step.STAGE, DONE), lambda lake: RunFolder(lake, INPUTS).steps_done()),
    "notes": (
        lambda lake: next(lake.list(staging_key(DAY, NOTES))).key,
        lambda lake: Notes(lake, DAY).read(),
    ),
}
NO_JSON = {"nothing": b"", "zeros": bytes(40), "half": b'{"run_id": "2024', "other": b"[1]", "text": b"\xff"}


@pytest.mark.parametrize("damage", NO_JSON)
@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_file_is_named_with_what_to_do(kind: str, damage: str, lake: FileStore) -> None:
    _filled(lake)
    key, read = READERS[kind][0](lake), READERS[kind][1]
    lake.put(key, NO_JSON[damage])
    with pytest.raises(
        Damaged, match=r"damaged, it cannot be read .*; (restore|remove|if nothing)"
    ) as reported:
        read(lake)
    assert lake.url_of(key) in str(reported.value)


def test_a_manifest_with_one_changed_bit_is_not_believed() -> None:
    data = bytearray(Manifest(day=DAY).to_bytes())
    for place in range(len(data)):
        for bit in range(8):
            changed = data.copy()
            changed[place] ^= 1 << bit
            with pytest.raises(Damaged, match="lake/m: damaged"):
                read_manifest(bytes(changed), source="lake/m")


def test_a_manifest_of_a_version_without_seals_is_read() -> None:
    lines = Manifest(day=DAY).to_bytes().splitlines(keepends=True)
    assert read_manifest(b"".join(lines[:-1]), source="lake/m") == Manifest(day=DAY)


def test_pages_of_a_table_with_one_changed_bit_are_not_believed(lake: FileStore, tmp_path: Path) -> None:
    table = pa.table({"offset": pa.array(range(1000)), "outcome": ["committed", "aborted"] * 500})
    put_table(lake, "runs/a", "t.parquet", table)
    path = tmp_path / "lake" / "runs/a/t.parquet"
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    for place in range(4, len(whole) - footer, 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with suppress(Damaged):
            assert read_table(lake, "runs/a/t.parquet").equals(table)
