"""Which decisions to replay count for a day of a backfill."""

from spark_jobs.backfilling.request import BackfillRequest
from spark_jobs.sources.taken import Taken
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.manifest import Manifest, Replay
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.replays import due_replays


def replays_of_day(
    lake: ObjectStore, chain: Chain, request: BackfillRequest, standing: Manifest, taken: Taken
) -> tuple[Replay, ...]:
    """Replays of the day's run that still count, and those that are due if the day is requested."""
    had = {replay.decision for replay in standing.replays}
    asked = request.covers(standing.day)
    if not had and not asked:
        return ()
    return tuple(
        replay
        for replay in due_replays(lake, chain, taken.decisions, standing.day)
        if replay.decision in had or (asked and request.takes(replay.source, replay.topic))
    )
