"""`stage`: fixes the night's inputs in a manifest, and copies or references the objects that it names.

A night's manifest is fixed once: staging again gives the same one, until the run is final and ever after.
What arrives later belongs to the next night. A backfill fixes a final night anew, and leaves it as it is if
nothing has changed; `restage` lists anew while the night is not final.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from datetime import date

from spark_jobs.backfilling.assemble import assemble, same_inputs, with_kept_orders
from spark_jobs.backfilling.copies import check_copies
from spark_jobs.backfilling.inputs import day_inputs
from spark_jobs.backfilling.replays import replays_of_day
from spark_jobs.backfilling.request import BackfillRequest
from spark_jobs.config.canonical import digest_of
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.reporting.progress import byte_progress
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.errors import OutOfTurn
from spark_jobs.storage.fetch import Fetched, Fetcher, identity_of
from spark_jobs.storage.layout import staging_key
from spark_jobs.storage.manifest import Manifest, StageProblem, read_manifest
from spark_jobs.storage.night import build_manifest, list_night, new_content, not_taken
from spark_jobs.storage.notes import Notes
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.placement import Placed
from spark_jobs.storage.replays import due_replays, with_replays
from spark_jobs.storage.run_folder import MANIFEST, RunFolder, RunInputs
from spark_jobs.storage.staged import read_run_manifest
from spark_jobs.storage.stores import open_source
from spark_jobs.storage.taken import Taken, read_taken, taken_by
from spark_jobs.storage.truncations import truncations

KEY_DIGITS = 16


def stage(
    settings: Settings,
    day: date,
    *,
    lake: ObjectStore,
    chain: Chain,
    backfill: BackfillRequest | None = None,
    restage: bool = False,
) -> Manifest:
    """The manifest of `day`, with all its objects in place; what had to be set aside stands in it, too."""
    standing = chain.run_of(day)
    if standing is not None and backfill is None:
        return read_run_manifest(lake, standing.run_id)
    if backfill is None:
        chain.check_turn(day)
    key = staging_key(day, _fixed_name(settings, day, chain, backfill))
    if restage:
        lake.delete(key)
    if lake.stat(key) is None:
        manifest = (
            _stage_night(settings, day, lake, chain)
            if backfill is None
            else _stage_backfill(settings, day, lake, chain, backfill)
        )
        lake.put_if_absent(key, manifest.to_bytes())
    Notes(lake, day).clear()  # also those that an attempt left which ended right here
    return read_manifest(lake.read(key), source=lake.url_of(key))


def _stage_night(settings: Settings, day: date, lake: ObjectStore, chain: Chain) -> Manifest:
    """Everything that no earlier night has taken, and what was decided to be taken up again."""
    taken = read_taken(lake, chain.before(day))
    replays = due_replays(lake, chain, taken, day)
    manifest = with_replays(_stage_anew(settings, day, lake, taken), replays)
    return replace(manifest, truncations=truncations(lake, chain, day))


def _stage_backfill(
    settings: Settings, day: date, lake: ObjectStore, chain: Chain, request: BackfillRequest
) -> Manifest:
    """The night as the backfill wants it; as it stands, truncations and all, if that is what it is."""
    entry, taken = chain.run_of(day), read_taken(lake, chain.before(day))
    standing = read_run_manifest(lake, entry.run_id) if entry else Manifest(day=day)
    night = list_night(settings, day) if request.covers(day) else None
    inputs = day_inputs(settings, request, standing, taken, night)
    known = _known_versions(inputs.listed, taken_by([standing]))
    fetched, problems = _fetch_known(settings, day, lake, inputs.listed, known)
    aside = (*inputs.problems, *problems)
    found = assemble(settings, day, taken, kept=inputs.kept, fetched=fetched, problems=aside)
    manifest = with_replays(found, replays_of_day(lake, chain, request, standing, taken))
    if (
        entry is not None
        and same_inputs(manifest, standing)
        and (entry.config, entry.state_in) == (settings.digest, chain.state_before(day))
    ):
        return standing
    if entry is not None:
        check_copies(lake, entry.run_id, inputs.kept)
    return replace(with_kept_orders(manifest, standing), truncations=truncations(lake, chain, day))


def fetch(
    settings: Settings, day: date, *, source: str, lake: ObjectStore, chain: Chain
) -> Mapping[str, int]:
    """Brings one source's objects of `day` into the lake and notes them down; what was counted.

    The manifest stays open: `stage` fixes it over all sources, and finds there what was fetched and has not
    changed since. Where a manifest is fixed already there is nothing to fetch.
    """
    if chain.run_of(day) is not None or lake.stat(staging_key(day, _fixed_name(settings, day, chain))):
        return {"objects": 0, "bytes": 0, "set_aside": 0}
    chain.check_turn(day)
    alone = settings.model_copy(update={"sources": (settings.source(source),)})
    fetched, problems = _fetch_night(alone, day, lake, read_taken(lake, chain.before(day)))
    size = sum(each.placed.stat.size for each in fetched)
    return {"objects": len(fetched), "bytes": size, "set_aside": len(problems)}


def open_run(
    settings: Settings, manifest: Manifest, *, lake: ObjectStore, chain: Chain, backfill: bool = False
) -> RunFolder:
    """The run on this manifest, with `stage` marked as done; finds what an earlier attempt has done.

    Raises `OutOfTurn` if another run speaks for the date already and this is no backfill.
    """
    inputs = RunInputs(
        day=manifest.day,
        manifest=manifest.digest,
        config=settings.digest,
        state_in=chain.state_before(manifest.day),
    )
    standing = chain.run_of(manifest.day)
    if standing is not None and standing.run_id != inputs.run_id and not backfill:
        raise OutOfTurn(
            f"{manifest.day}: run {standing.run_id} is final, with other settings or from another state; "
            "a backfill can replace it"
        )
    run = RunFolder(lake, inputs)
    run.create()
    if run.done(Step.STAGE) is None:
        _mark_staged(run, manifest)
    return run


def _mark_staged(run: RunFolder, manifest: Manifest) -> None:
    run.begin(Step.STAGE)
    counts = {
        "objects": len(manifest.entries),
        "bytes": sum(entry.size for entry in manifest.entries),
        "set_aside": len(manifest.problems),
        **({"replays": len(manifest.replays)} if manifest.replays else {}),
    }
    run.finish(Step.STAGE, outputs=[run.put(Step.STAGE, MANIFEST, manifest.to_bytes())], counts=counts)


def _fixed_name(settings: Settings, day: date, chain: Chain, backfill: BackfillRequest | None = None) -> str:
    """Names what the listing depended on: a manifest fixed under other circumstances is another one."""
    standing = chain.run_of(day)
    circumstances: list[object] = [
        [source.model_dump(mode="json") for source in settings.sources],
        [entry.run_id for entry in chain.before(day)],
        standing.run_id if standing else "",
    ]
    if backfill is not None:
        circumstances += [backfill.choice(day), settings.digest]
    elif chain.is_taken_back(day, settings.digest):
        circumstances.append(settings.digest)
    return f"manifest-{digest_of(circumstances)[:KEY_DIGITS]}.jsonl"


def _stage_anew(settings: Settings, day: date, lake: ObjectStore, taken: Taken) -> Manifest:
    fetched, problems = _fetch_night(settings, day, lake, taken)
    return build_manifest(day, new_content(fetched, taken), problems, taken)


def _fetch_night(
    settings: Settings, day: date, lake: ObjectStore, taken: Taken
) -> tuple[list[Fetched], list[StageProblem]]:
    """Everything that the night may take, and what had to be set aside."""
    night = list_night(settings, day)
    candidates = not_taken(night.placed, taken)
    fetched, problems = _fetch_known(settings, day, lake, candidates, _known_versions(candidates, taken))
    return fetched, [*night.problems, *problems]


def _fetch_known(
    settings: Settings, day: date, lake: ObjectStore, candidates: tuple[Placed, ...], known: dict[str, str]
) -> tuple[list[Fetched], list[StageProblem]]:
    """Reads what nobody has read yet: `known` and the notes of earlier attempts tell of the rest."""
    notes = Notes(lake, day)
    fetcher = Fetcher(lake=lake, notes=notes, known={**known, **notes.read()})
    return _fetch_all(settings, candidates, fetcher)


def _known_versions(candidates: Iterable[Placed], taken: Taken) -> dict[str, str]:
    """Digests that need no reading, because an earlier night has read this very version."""
    found = (
        (each, taken.same_version(each.source.name, each.path, each.stat.version)) for each in candidates
    )
    return {identity_of(each): entry.sha256 for each, entry in found if entry is not None}


def _fetch_all(
    settings: Settings, candidates: tuple[Placed, ...], fetcher: Fetcher
) -> tuple[list[Fetched], list[StageProblem]]:
    """Fetches in parallel; the first error of a store stops the rest, an object's own fault does not."""
    results: list[Fetched | StageProblem] = []
    total = sum(each.stat.size for each in candidates)
    with (
        byte_progress("stage", total) as advance,
        ThreadPoolExecutor(settings.limits.stage_threads) as workers,
    ):
        sizes = {
            workers.submit(fetcher.fetch, each, open_source(settings, each.source)): each.stat.size
            for each in candidates
        }
        try:
            for future in as_completed(sizes):
                results.append(future.result())
                advance(sizes[future])
        finally:
            workers.shutdown(cancel_futures=True)
            fetcher.notes.write()
    fetched = [result for result in results if isinstance(result, Fetched)]
    return fetched, [result for result in results if isinstance(result, StageProblem)]
