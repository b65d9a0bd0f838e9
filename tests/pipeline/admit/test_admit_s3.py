"""Two runs whose lake is a bucket have the verdicts, the log and the state of runs in a directory."""

from pathlib import Path

from spark_jobs.lake.stores import open_source
from tests.pipeline.admitted import ORDERS, AdmittedRun, admit
from tests.pipeline.batches import batch, marker
from tests.pipeline.runs import CAPTURE, Place, place_at
from tests.s3_server import S3Server

PARK = CAPTURE + "    markers: true\n    on_gap: park\n"
OBJECTS = {
    "dt=2024-05-01/orders-0/a": batch(0, txn=True) + batch(2, txn=True) + batch(0, pid=2) + b"junk",
    "dt=2024-05-02/orders-0/b": batch(1, txn=True) + marker(epoch=1),
}


def _run(place: Place) -> list[AdmittedRun]:
    for path, data in OBJECTS.items():
        open_source(place.settings, place.settings.sources[0]).put(path, data)
    return [admit(place, number) for number in (1, 2)]


def test_a_lake_in_a_bucket_is_a_lake(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = f"s3://{s3_server.new_bucket()}"
    there = PARK.replace("lake: lake", f"lake: {bucket}/lake").replace("root: capture", f"root: {bucket}/in")
    there += f"s3: {{endpoint_url: '{s3_server.endpoint_url}', addressing: path}}\n"

    near, far = _run(place_at(tmp_path, PARK)), _run(place_at(tmp_path, there))

    for here, away in zip(near, far, strict=True):
        assert away.run_id == here.run_id
        assert away.batches() == here.batches()
        assert away.states() == here.states()
        assert away.log() == here.log()
    assert far[-1].state(ORDERS).end_offset == 5
