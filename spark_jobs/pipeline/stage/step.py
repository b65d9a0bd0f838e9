"""`stage`: fixes the run's inputs in a manifest, and copies or references the objects that it names.

A run's manifest is fixed once: staging again gives the same one, before and after the run is final.
What arrives later belongs to the next run. A backfill fixes a final run's inputs anew, and leaves them as
they are if nothing has changed; `restage` lists the sources again while the run is not final.

Read on in: `fetch` (the driver's side), `worker` (what a Spark task does); for backfills `backfill_request`
and `backfill_inputs`; `truncations` for the logs of captures.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date

from spark_jobs.config.canonical import digest_of
from spark_jobs.config.settings import OnRecreate, Settings
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.checksums import algorithm_of
from spark_jobs.lake.errors import OutOfTurn, StorageError
from spark_jobs.lake.layout import staging_key
from spark_jobs.lake.ledger import runs_of
from spark_jobs.lake.manifest import (
    Manifest,
    ManifestEntry,
    StagedObjects,
    StageProblem,
    read_manifest,
    read_run_manifest,
)
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.replays import due_replays, with_replays
from spark_jobs.lake.run_folder import MANIFEST, RunFolder, RunInputs
from spark_jobs.pipeline.stage.backfill_inputs import (
    assemble,
    check_copies,
    check_no_longer_inherited,
    day_inputs,
    late_entries,
    replays_of_day,
    same_inputs,
    with_kept_orders,
)
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.pipeline.stage.fetch import fetch_all
from spark_jobs.pipeline.stage.truncations import truncations
from spark_jobs.pipeline.stage.worker import Notes, ObjectToFetch, identity_of
from spark_jobs.sources.inheritance import SegmentHistory
from spark_jobs.sources.listing import Drift, drift_of, list_sources
from spark_jobs.sources.log_ids import with_logs, with_topic_ids
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.source import Placed
from spark_jobs.sources.taken import (
    Fetched,
    Taken,
    build_manifest,
    described,
    new_content,
    not_taken,
    taken_by,
)
from spark_jobs.sources.taken_blocks import read_taken

KEY_DIGITS = 16


def stage(
    settings: Settings,
    day: date,
    *,
    lake: ObjectStore,
    chain: Chain,
    spark: Spark | None = None,
    backfill: BackfillRequest | None = None,
    restage: bool = False,
) -> Manifest:
    """The manifest of `day`, with all its objects in place; what had to be set aside is listed in it, too.

    Without `spark` the driver fetches all objects, however large they are.
    """
    final_run = chain.run_of(day)
    if final_run is not None and backfill is None:
        _check_restage(day, final_run.run_id, restage=restage)
        return read_run_manifest(lake, final_run.run_id)
    if backfill is None:
        chain.check_turn(day)
    key = staging_key(day, _fixed_name(settings, day, chain, backfill))
    if restage:
        lake.delete(key)
    if lake.stat(key) is None:
        manifest = (
            _stage_run(settings, day, lake, chain, spark)
            if backfill is None
            else _stage_backfill(settings, day, lake, chain, backfill, spark=spark)
        )
        lake.put_if_absent(key, manifest.to_bytes())
    Notes(lake, day).clear()  # also those that an attempt left which ended right here
    return read_manifest(lake.read(key), source=lake.url_of(key))


def _check_restage(day: date, run_id: str, *, restage: bool) -> None:
    if restage:
        raise OutOfTurn(
            f"{day}: run {run_id} is final, so its inputs are not listed again by restage; "
            f"`onceover backfill --from {day} --to {day}` lists the sources again and replaces the run"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedInputs:
    """Inputs that an earlier attempt has fixed: when, as far as the ledger knows, and what differs since.

    `problem` is why the sources could not be compared; then `drift` is empty.
    """

    day: date
    objects: int
    fixed_at: str
    drift: Drift
    problem: str = ""

    @property
    def sentence(self) -> str:
        """What a person has to know before the run continues with them."""
        since = f" at {self.fixed_at}" if self.fixed_at else ""
        fixed = f"the inputs of {self.day} were fixed{since} by an earlier attempt ({self.objects:,} objects)"
        if self.problem:
            return f"{fixed}; the sources cannot be listed for comparison: {self.problem}"
        if not self.drift:
            return f"{fixed}; the sources list the same objects now"
        return (
            f"{fixed}; since then {self.drift.new:,} objects are new, {self.drift.changed:,} have another "
            f"size or time, {self.drift.vanished:,} have vanished at the sources. This run continues with "
            "the fixed inputs and the next run takes what is new; to list the sources again for this date, "
            "run with --restage (in Airflow: trigger with restage)"
        )


def fixed_inputs(settings: Settings, day: date, *, lake: ObjectStore, chain: Chain) -> FixedInputs | None:
    """The inputs that a run of `day`, which is not final, finds fixed already; None if it will list anew."""
    key = staging_key(day, _fixed_name(settings, day, chain))
    if chain.run_of(day) is not None or lake.stat(key) is None:
        return None
    manifest = read_manifest(lake.read(key), source=lake.url_of(key))
    lines = (line for line in runs_of(lake, day) if line.manifest == manifest.digest)
    started = next((line.started_at for line in lines), "")
    try:
        placed = list_sources(settings, day).placed
        taken = _taken(settings, lake, chain, day, (each.where for each in placed))
        drift, problem = drift_of(manifest, placed, taken), ""
    except StorageError as error:
        drift, problem = Drift(), str(error)
    return FixedInputs(day=day, objects=len(manifest.entries), fixed_at=started, drift=drift, problem=problem)


def _stage_run(
    settings: Settings, day: date, lake: ObjectStore, chain: Chain, spark: Spark | None
) -> Manifest:
    """Everything that no earlier run has taken, and what is replayed from quarantine."""
    found, taken = _stage_anew(settings, day, lake, chain, spark)
    manifest = with_replays(found, due_replays(lake, chain, taken.decisions, day))
    return replace(manifest, truncations=truncations(lake, chain, day))


def _stage_backfill(
    settings: Settings,
    day: date,
    lake: ObjectStore,
    chain: Chain,
    request: BackfillRequest,
    *,
    spark: Spark | None,
) -> Manifest:
    """The inputs that the backfill asks for; those of the final run, truncations and all, if they are."""
    entry = chain.run_of(day)
    former = read_run_manifest(lake, entry.run_id) if entry else Manifest(day=day)
    listing = list_sources(settings, day) if request.covers(day) else None
    late = late_entries(lake, chain, day) if listing is not None else ()
    listed = [each.where for each in listing.placed] if listing is not None else []
    known_by_run = [(each.source, each.path) for each in (*former.entries, *late)]
    taken = _taken(settings, lake, chain, day, (*listed, *known_by_run))
    inputs = day_inputs(settings, request, former, taken, listing, late=late)

    def build(fetched: Iterable[Fetched], problems: Iterable[StageProblem]) -> Manifest:
        aside = (*inputs.problems, *problems)
        found = assemble(day, taken, kept=inputs.kept, fetched=fetched, problems=aside)
        return with_logs(found, settings, taken, accepted=former)

    known = _known_versions(inputs.listed, taken_by([former]))
    found = _fetch_into(
        settings,
        day,
        lake,
        taken,
        spark=spark,
        candidates=inputs.listed,
        known=known,
        build=build,
        kept=inputs.kept,
    )
    bare = tuple(each.bare(taken) for each in listing.unrecognised) if listing else former.bare_sources
    manifest = with_replays(
        replace(found, bare_sources=bare), replays_of_day(lake, chain, request, former, taken)
    )
    if (
        entry is not None
        and same_inputs(manifest, former)
        and (entry.config, entry.state_in) == (settings.digest, chain.state_before(day))
    ):
        return former
    if entry is not None:
        check_copies(settings, lake, entry.run_id, inputs.kept)
        check_no_longer_inherited(settings, lake, entry.run_id, former, manifest)
    return replace(with_kept_orders(manifest, former), truncations=truncations(lake, chain, day))


def fetch(
    settings: Settings,
    day: date,
    *,
    source: str,
    lake: ObjectStore,
    chain: Chain,
    spark: Spark | None = None,
    restage: bool = False,
) -> Mapping[str, int]:
    """Copies one source's objects of `day` into the lake, and notes them; returns counts.

    The manifest stays open: `stage` fixes it over all sources, and finds there what was fetched and has not
    changed since. Where a manifest is fixed already there is nothing to fetch, unless `stage` will restage.
    """
    final = chain.run_of(day)
    if final is not None:
        _check_restage(day, final.run_id, restage=restage)
    is_fixed = lake.stat(staging_key(day, _fixed_name(settings, day, chain))) is not None and not restage
    if final is not None or is_fixed:
        return {"objects": 0, "bytes": 0, "set_aside": 0}
    chain.check_turn(day)
    alone = settings.model_copy(update={"sources": (settings.source(source),)})
    manifest, _ = _stage_anew(alone, day, lake, chain, spark, is_whole=False)
    return staged_counts(manifest)


def open_run(
    settings: Settings, manifest: Manifest, *, lake: ObjectStore, chain: Chain, backfill: bool = False
) -> RunFolder:
    """The run on this manifest, with `stage` marked as done; finds what an earlier attempt has done.

    Raises `OutOfTurn` if the date already has a current run and this is no backfill.
    """
    inputs = RunInputs(
        day=manifest.day,
        manifest=manifest.digest,
        config=settings.digest,
        state_in=chain.state_before(manifest.day),
    )
    final_run = chain.run_of(manifest.day)
    if final_run is not None and final_run.run_id != inputs.run_id and not backfill:
        raise OutOfTurn(
            f"{manifest.day}: run {final_run.run_id} is final, with other settings or from another state; "
            "a backfill can replace it"
        )
    run = RunFolder(lake, inputs)
    run.create()
    if run.done(Step.STAGE) is None:
        _mark_staged(run, manifest)
    return run


def _mark_staged(run: RunFolder, manifest: Manifest) -> None:
    run.begin(Step.STAGE)
    counts = staged_counts(manifest)
    run.finish(Step.STAGE, outputs=[run.put(Step.STAGE, MANIFEST, manifest.to_bytes())], counts=counts)


def staged_counts(manifest: Manifest) -> dict[str, int]:
    """Objects and bytes that the run reads, objects that it inherits whole, and what else it has."""
    inherited = sum(entry.inherited for entry in manifest.entries)
    return {
        "objects": len(manifest.entries) - inherited,
        "bytes": manifest.bytes_read,
        **({"inherited": inherited} if inherited else {}),
        "set_aside": len(manifest.problems),
        **({"replays": len(manifest.replays)} if manifest.replays else {}),
    }


def _fixed_name(settings: Settings, day: date, chain: Chain, backfill: BackfillRequest | None = None) -> str:
    """Names what the listing depended on: a manifest fixed under other circumstances is another one."""
    final_run = chain.run_of(day)
    circumstances: list[object] = [
        [source.model_dump(mode="json") for source in settings.sources],
        [entry.run_id for entry in chain.before(day)],
        final_run.run_id if final_run else "",
    ]
    if any(topic.on_recreate is not OnRecreate.STOP for topic in settings.topics.values()):
        circumstances.append([[name, topic.on_recreate.value] for name, topic in settings.topics.items()])
    if backfill is not None:
        circumstances += [backfill.choice(day), settings.digest]
    elif chain.is_taken_back(day, settings.digest):
        circumstances.append(settings.digest)
    return f"manifest-{digest_of(circumstances)[:KEY_DIGITS]}.jsonl"


Build = Callable[[Iterable[Fetched], Iterable[StageProblem]], Manifest]
"""Makes a manifest of what was fetched and what was set aside."""


def _taken(
    settings: Settings, lake: ObjectStore, chain: Chain, day: date, objects: Iterable[tuple[str, str]]
) -> Taken:
    """What the current runs of earlier dates have taken of `objects`."""
    return read_taken(settings, lake, [entry.run_id for entry in chain.before(day)], objects)


def _stage_anew(
    settings: Settings,
    day: date,
    lake: ObjectStore,
    chain: Chain,
    spark: Spark | None,
    *,
    is_whole: bool = True,
) -> tuple[Manifest, Taken]:
    """Everything that the run may take, listed now, and what earlier runs took of it.

    What the run has to read is in its place.

    Which log a recreated topic's directory belongs to is decided over all sources, if this `is_whole`.
    """
    for source in settings.sources:
        reader_of(source).bring_in(day, lake, spark, settings)
    listing = list_sources(settings, day)
    taken = _taken(settings, lake, chain, day, (each.where for each in listing.placed))

    def build(fetched: Iterable[Fetched], problems: Iterable[StageProblem]) -> Manifest:
        aside = (*listing.problems, *problems)
        found = build_manifest(day, new_content(fetched, taken), aside, taken)
        if not is_whole:
            return with_topic_ids(found, settings, taken.by_version.values())
        return with_logs(found, settings, taken)

    candidates = not_taken(listing.placed, taken)
    known = _known_versions(candidates, taken)
    manifest = _fetch_into(
        settings, day, lake, taken, spark=spark, candidates=candidates, known=known, build=build
    )
    bare_sources = tuple(each.bare(taken) for each in listing.unrecognised)
    return replace(manifest, bare_sources=bare_sources), taken


def _fetch_into(
    settings: Settings,
    day: date,
    lake: ObjectStore,
    taken: Taken,
    *,
    spark: Spark | None,
    candidates: tuple[Placed, ...],
    known: dict[str, str],
    build: Build,
    kept: tuple[ManifestEntry, ...] = (),
) -> Manifest:
    """The manifest of `candidates`, marked with what the run inherits; all else is copied or referenced.

    Objects whose digests are `known` or noted by earlier attempts are not read for them. A segment that may
    be the same as an earlier run's is read for its digest alone, and copied only if it is another one.
    `kept` entries of a backfill are in their places already.
    """
    history = SegmentHistory(settings, lake, taken.segments)
    known |= Notes(lake, day).read()
    candidates, unfit = described(candidates, settings)
    wanted = [_wanted(each, known, taken, history) for each in candidates]
    results = [*fetch_all(wanted, settings, day, lake=lake, spark=spark), *unfit]
    of_kept = history.prefixes(kept, StagedObjects(settings))
    while True:
        fetched = [each for each in results if isinstance(each, Fetched)]
        problems = [each for each in results if isinstance(each, StageProblem)]
        prefixes = of_kept | {each.where: each.prefix for each in fetched}
        manifest = history.inherit(build(fetched, problems), prefixes)
        read = {(entry.source, entry.path) for entry in manifest.entries if not entry.inherited}
        away = {each.where: each for each in fetched if not each.is_here and each.where in read}
        if not away:
            return manifest
        others = [each for each in results if isinstance(each, StageProblem) or each.where not in away]
        missing = [ObjectToFetch(placed=each.placed, digest=each.digest) for each in away.values()]
        results = [*others, *fetch_all(missing, settings, day, lake=lake, spark=spark)]


def _known_versions(candidates: Iterable[Placed], taken: Taken) -> dict[str, str]:
    """Digests that need no reading, because an earlier run has read this very version."""
    found = ((each, taken.same_version(*each.where, each.stat.version)) for each in candidates)
    return {identity_of(each): entry.content for each, entry in found if entry is not None}


def _wanted(placed: Placed, known: Mapping[str, str], taken: Taken, history: SegmentHistory) -> ObjectToFetch:
    """What has to be learned of an object, so that it can be compared with what earlier runs had."""
    alike, prefix = history.alike(placed), None
    if not alike:
        prefix = history.newest_prefix(placed)
    earlier = {each.content for each in alike} | taken.contents.get(placed.where, set())
    wanted = ObjectToFetch(
        placed=placed,
        digest=known.get(identity_of(placed), ""),
        algorithms=frozenset(map(algorithm_of, earlier)),
        is_read_only=bool(alike),
    )
    if prefix is None:
        return wanted
    return replace(
        wanted,
        prefix=known.get(identity_of(placed, prefix.size), ""),
        prefix_size=prefix.size,
        prefix_algorithm=algorithm_of(prefix.content),
    )
