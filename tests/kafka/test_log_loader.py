"""Loading a partition's files, after clean and unclean shutdowns (facts §6)."""

from dataclasses import replace

import pytest

from spark_jobs.kafka.errors import CorruptData, KafkaError, UnloadableLog
from spark_jobs.kafka.formats.log_files import LogFileKind, parse_file_name, segment_file_name
from spark_jobs.kafka.formats.snapshot import read_snapshot, write_snapshot
from spark_jobs.kafka.log.segment import scan
from spark_jobs.kafka.producers.producer_state import ProducerStateEntry
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.replica_log import PartitionConfig
from tests.cases.batch_rows import T0
from tests.kafka.broker_batches import abort_batch, commit_batch, data_batch, plain_batch
from tests.kafka.log_steps import NOW, UNVERIFIED, Writer, log_bytes, mixed_transactions
from tests.kafka.manager_steps import DAY

Files = dict[str, bytes]


def closed(log: PartitionLog) -> Files:
    """The files after a clean shutdown."""
    log.close()
    return log.files()


def without(files: Files, *kinds: LogFileKind) -> Files:
    """`files` but for those of some kinds."""
    return {
        name: data
        for name, data in files.items()
        if (f := parse_file_name(name)) is None or f.kind not in kinds
    }


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def segmented(*, segments: int, per_segment: int = 2) -> PartitionLog:
    """One producer's batches of one record, the last segment active and full."""
    writer = Writer()
    for segment in range(segments):
        if segment:
            writer.log.roll(NOW)
        for _ in range(per_segment):
            writer.data(txn=False)
    writer.replicate()
    return writer.log


def flip(files: Files, base: int, position: int) -> Files:
    """One bit of a segment changed."""
    name = segment_file_name(base, LogFileKind.LOG)
    data = bytearray(files[name])
    data[position] ^= 1
    return files | {name: bytes(data)}


# -- windows and state -----------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False], ids=["row-061 clean", "row-061 unclean"])
def test_after_a_restart_only_the_last_batch_is_a_duplicate(clean: bool) -> None:
    log = segmented(segments=1, per_segment=5)
    loaded = load(closed(log) if clean else log.files(), clean=clean, now=NOW)
    last = loaded.append(data_batch(seq=4), now=NOW)
    before = loaded.append(data_batch(seq=3), now=NOW)
    assert (last.decision.verdict, last.base_offset) == (Verdict.DUPLICATE, 4)
    assert before.kafka_error is KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_row_071_a_snapshot_without_a_log_is_deleted() -> None:
    loaded = load({"00000000000000000042.snapshot": write_snapshot([])}, clean=True, now=NOW)
    assert loaded.snapshots == {}
    assert (loaded.log_end_offset, bases(loaded)) == (0, [0])


def test_row_073_a_clean_start_without_snapshots_drops_all_producers_unread() -> None:
    files = without(closed(segmented(segments=3)), LogFileKind.SNAPSHOT)
    loaded = load(files, clean=True, now=NOW)
    assert sorted(loaded.snapshots) == [2, 4, 6]
    assert {read_snapshot(data) for data in loaded.snapshots.values()} == {()}
    assert loaded.manager.is_empty


def test_row_074_an_unclean_start_without_snapshots_reads_everything() -> None:
    log = segmented(segments=4)
    loaded = load(without(log.files(), LogFileKind.SNAPSHOT), clean=False, now=NOW, recovery_point=0)
    assert sorted(loaded.snapshots) == [2, 4, 6, 8]
    assert [read_snapshot(loaded.snapshots[o])[0].last_sequence for o in (2, 4, 6, 8)] == [1, 3, 5, 7]
    assert loaded.manager.producers[1].last_sequence == 7


def test_row_096_after_an_unclean_restart_an_aborted_transaction_is_stable() -> None:
    writer = Writer()
    writer.data(count=3)
    writer.abort()
    loaded = load(writer.log.files(), clean=False, now=NOW, high_watermark=4)
    assert loaded.first_unstable_offset is None
    assert loaded.last_stable_offset == 4


def test_row_097_a_lower_coordinator_epoch_in_the_log_is_taken_over() -> None:
    log = PartitionLog(now=NOW)
    late = T0 + 2 * DAY
    log.append_as_follower(commit_batch(coord=5, at=0, ts=T0) + commit_batch(coord=4, at=1, ts=late), now=NOW)
    loaded = load(without(log.files(), LogFileKind.SNAPSHOT), clean=False, now=NOW)
    entry = loaded.manager.producers[1]
    assert (entry.coordinator_epoch, entry.last_timestamp) == (4, late)


@pytest.mark.parametrize("clean", [True, False], ids=["row-098 clean", "row-098 unclean"])
def test_records_deleted_inside_a_segment_do_not_prune_producers(clean: bool) -> None:
    writer = Writer()
    writer.data(1, txn=False)
    writer.data(2, txn=False)
    writer.replicate()
    writer.log.delete_records(1)
    files = closed(writer.log) if clean else writer.log.files()
    loaded = load(files, clean=clean, now=NOW, log_start_offset=1)
    assert sorted(loaded.manager.producers) == [1, 2]


def test_row_099_records_deleted_up_to_a_segment_prune_its_producers_on_an_unclean_start() -> None:
    writer = Writer()
    writer.data(1, txn=False)
    writer.log.roll(NOW)
    writer.data(2, txn=False)
    writer.replicate()
    writer.log.delete_records(1)
    writer.log.delete_old_segments()
    files = closed(writer.log)
    assert sorted(writer.log.manager.producers) == [1, 2]
    unclean = load(files, clean=False, now=NOW, log_start_offset=1)
    assert sorted(unclean.manager.producers) == [2]


def test_row_100_stray_snapshots_go_but_for_the_newest() -> None:
    writer = Writer()
    writer.data(txn=False)
    writer.log.roll(NOW)
    writer.data(txn=False)
    writer.log.roll(NOW)
    writer.data(txn=False)
    stray = write_snapshot(writer.log.manager.producers.values())
    writer.data(txn=False)
    files = closed(writer.log) | {segment_file_name(3, LogFileKind.SNAPSHOT): stray}
    loaded = load(files, clean=True, now=NOW)
    assert bases(loaded) == [0, 1, 2]
    assert sorted(loaded.snapshots) == [1, 2, 4]


def test_row_107_a_reloaded_batch_takes_the_markers_timestamp() -> None:
    log = PartitionLog(now=NOW)
    log.append_as_follower(data_batch(txn=True, at=0, ts=T0) + commit_batch(at=1, ts=T0 + 9), now=NOW)
    assert log.manager.producers[1].batches[0].timestamp == T0
    loaded = load(closed(log), clean=True, now=NOW)
    assert loaded.manager.producers[1].batches[0].timestamp == T0 + 9


# -- transaction indexes ---------------------------------------------------------------------------------


def rolled_transactions() -> PartitionLog:
    """The mixed transactions over several small segments."""
    config = replace(UNVERIFIED, segment_bytes=700)
    log = mixed_transactions(PartitionLog(config, now=NOW))
    assert len(log.segments) > 2
    return log


@pytest.mark.parametrize("clean", [True, False], ids=["row-101 clean", "row-101 unclean"])
def test_lost_indexes_are_rebuilt_as_they_were(clean: bool) -> None:
    log = rolled_transactions()
    files = closed(log) if clean else log.files()
    lost = without(files, LogFileKind.INDEX, LogFileKind.TIME_INDEX, LogFileKind.TXN_INDEX)
    loaded = load(lost, clean=clean, now=NOW)
    assert [segment.aborted for segment in loaded.segments] == [segment.aborted for segment in log.segments]
    assert loaded.aborted != ()


@pytest.mark.parametrize("keep_snapshots", [True, False], ids=["row-102 with", "row-102 without snapshots"])
def test_recovering_only_the_last_segment_gives_the_same_aborted_transactions(keep_snapshots: bool) -> None:
    log = rolled_transactions()
    files = log.files() if keep_snapshots else without(log.files(), LogFileKind.SNAPSHOT)
    last = segment_file_name(bases(log)[-1], LogFileKind.TXN_INDEX)
    files.pop(last, None)
    loaded = load(files, clean=False, now=NOW, recovery_point=bases(log)[-1])
    assert loaded.aborted == log.aborted


def test_a_corrupt_transaction_index_is_rebuilt_even_after_a_clean_shutdown() -> None:
    log = rolled_transactions()
    base = next(segment.base_offset for segment in log.segments if segment.aborted and segment.base_offset)
    name = segment_file_name(base, LogFileKind.TXN_INDEX)
    files = closed(log) | {name: bytes(34)}
    assert load(files, clean=True, now=NOW).aborted == log.aborted


# -- damage ----------------------------------------------------------------------------------------------


def test_row_103_a_log_cut_below_its_start_begins_anew() -> None:
    log = segmented(segments=3)
    log.delete_records(5)
    damaged = flip(log.files(), 2, 65)
    loaded = load(damaged, clean=False, now=NOW, log_start_offset=5)
    assert (bases(loaded), loaded.log_start_offset, loaded.log_end_offset) == ([5], 5, 5)
    assert loaded.snapshots == {}
    assert loaded.manager.is_empty
    Writer(log=loaded).data(txn=False)
    loaded.roll(NOW)
    assert sorted(loaded.snapshots) == [6]


def test_row_104_an_unclean_start_cuts_at_the_first_bad_checksum() -> None:
    log = segmented(segments=1, per_segment=3)
    first = len(data_batch())
    loaded = load(flip(log.files(), 0, first + 65), clean=False, now=NOW)
    assert (loaded.log_end_offset, len(log_bytes(loaded))) == (1, first)
    assert loaded.manager.producers[1].last_sequence == 0


def test_row_105_an_unclean_start_cuts_trailing_zeros() -> None:
    log = segmented(segments=1)
    name = segment_file_name(0, LogFileKind.LOG)
    loaded = load(log.files() | {name: log_bytes(log) + bytes(500)}, clean=False, now=NOW)
    assert log_bytes(loaded) == log_bytes(log)
    assert loaded.log_end_offset == 2


def test_row_106_a_plain_batch_inside_an_open_transaction_makes_the_log_unloadable() -> None:
    name = segment_file_name(0, LogFileKind.LOG)
    files = {name: data_batch(txn=True, at=0) + data_batch(seq=1, at=1)}
    with pytest.raises(UnloadableLog, match="INVALID_TXN_STATE"):
        load(files, clean=False, now=NOW)
    with_index = files | {segment_file_name(0, LogFileKind.INDEX): b""}
    loaded = load(with_index, clean=True, now=NOW)
    assert (loaded.log_end_offset, loaded.manager.is_empty) == (2, True)


def test_row_170_a_clean_start_does_not_look_at_checksums() -> None:
    log = segmented(segments=1, per_segment=3)
    loaded = load(flip(closed(log), 0, 65), clean=True, now=NOW)
    assert loaded.log_end_offset == 3
    assert loaded.manager.producers[1].last_sequence == 2


def test_row_171_damage_below_the_recovery_point_goes_unnoticed() -> None:
    log = segmented(segments=2)
    loaded = load(flip(log.files(), 0, 65), clean=False, now=NOW, recovery_point=2)
    assert loaded.log_end_offset == 4
    assert bases(loaded) == [0, 2]


def test_row_172_a_valid_snapshot_is_trusted_whatever_it_says() -> None:
    log = segmented(segments=1)
    forged = ProducerStateEntry(
        producer_id=77, producer_epoch=3, last_timestamp=T0, current_txn_first_offset=1
    )
    files = closed(log) | {segment_file_name(2, LogFileKind.SNAPSHOT): write_snapshot([forged])}
    loaded = load(files, clean=True, now=NOW, high_watermark=2)
    assert list(loaded.manager.producers) == [77]
    assert loaded.last_stable_offset == 1


def test_row_173_after_a_clean_start_a_torn_tail_stays_and_spoils_what_follows() -> None:
    log = segmented(segments=1)
    name = segment_file_name(0, LogFileKind.LOG)
    torn = log_bytes(log) + data_batch(seq=2, at=2)[:40]
    loaded = load(closed(log) | {name: torn}, clean=True, now=NOW)
    assert loaded.log_end_offset == 2
    assert loaded.append(data_batch(seq=2), now=NOW).base_offset == 2
    assert log_bytes(loaded).startswith(torn)
    with pytest.raises(CorruptData):
        list(scan(log_bytes(loaded)))


def test_an_unclean_start_deletes_every_segment_after_a_cut() -> None:
    log = segmented(segments=3)
    loaded = load(flip(log.files(), 2, 65), clean=False, now=NOW)
    assert (bases(loaded), loaded.log_end_offset) == ([0, 2], 2)
    assert sorted(loaded.snapshots) == [2]


def test_the_leader_epochs_of_a_cut_log_end_with_it() -> None:
    log = PartitionLog(leader_epoch=9, now=NOW)
    for offset, leader in enumerate((1, 1, 4)):
        log.append_as_follower(data_batch(seq=offset, at=offset, leader=leader), now=NOW)
    files = log.files()
    assert [(e.epoch, e.start_offset) for e in load(files, clean=True, now=NOW).leader_epochs.entries] == [
        (1, 0),
        (4, 2),
    ]
    cut = flip(files, 0, 2 * len(data_batch()) + 65)
    assert [e.epoch for e in load(cut, clean=False, now=NOW).leader_epochs.entries] == [1]
    unwritten = without(files) | {"leader-epoch-checkpoint": b""}
    recovered = load(unwritten, clean=False, now=NOW).leader_epochs.entries
    assert [(e.epoch, e.start_offset) for e in recovered] == [(1, 0), (4, 2)]


# -- interrupted cleaning --------------------------------------------------------------------------------


def swapped(files: Files, suffix: str, base: int, log: bytes) -> Files:
    """A cleaned segment that was being swapped in when the broker stopped."""
    return files | {
        segment_file_name(base, LogFileKind.LOG) + suffix: log,
        segment_file_name(base, LogFileKind.INDEX) + suffix: b"",
    }


def test_row_070_a_merged_segment_replaces_what_it_covers_with_their_snapshots() -> None:
    log = segmented(segments=4)
    merged = b"".join(bytes(segment.data) for segment in log.segments[:3])
    loaded = load(swapped(closed(log), ".swap", 0, merged), clean=True, now=NOW)
    assert bases(loaded) == [0, 6]
    assert sorted(loaded.snapshots) == [6, 8]
    assert log_bytes(loaded) == log_bytes(log)


def test_unfinished_cleanings_and_deletions_are_thrown_away() -> None:
    log = segmented(segments=2)
    files = closed(log)
    interrupted = swapped(swapped(files, ".cleaned", 0, b"half"), ".swap", 2, b"after the cleaning")
    interrupted[segment_file_name(0, LogFileKind.LOG) + ".deleted"] = b"old"
    loaded = load(interrupted, clean=True, now=NOW)
    assert log_bytes(loaded) == log_bytes(log)
    assert bases(loaded) == [0, 2]


def test_indexes_without_a_log_are_ignored() -> None:
    log = segmented(segments=1)
    orphan = {segment_file_name(99, kind): b"" for kind in (LogFileKind.INDEX, LogFileKind.TXN_INDEX)}
    assert bases(load(closed(log) | orphan, clean=True, now=NOW)) == [0]


def test_loading_does_not_change_its_input() -> None:
    files = flip(rolled_transactions().files(), 0, 100)
    before = dict(files)
    load(files, clean=False, now=NOW)
    assert files == before


def test_a_segment_whose_offsets_go_back_is_emptied() -> None:
    config = PartitionConfig(index_interval_bytes=1)
    name = segment_file_name(0, LogFileKind.LOG)
    backwards = b"".join(plain_batch(at=offset) for offset in (5, 6, 3))
    loaded = load({name: backwards}, clean=False, now=NOW, config=config)
    assert (log_bytes(loaded), loaded.log_end_offset) == (b"", 0)


def test_an_aborted_transaction_reaches_back_over_a_recovered_segment() -> None:
    log = PartitionLog(now=NOW)
    log.append_as_follower(data_batch(txn=True, at=0), now=NOW)
    log.roll(NOW)
    log.append_as_follower(abort_batch(at=1), now=NOW)
    loaded = load(without(log.files(), LogFileKind.TXN_INDEX), clean=False, now=NOW, recovery_point=1)
    assert [(txn.first_offset, txn.last_offset) for txn in loaded.aborted] == [(0, 1)]


def test_after_an_unclean_start_the_distance_to_the_next_index_entry_is_counted_anew() -> None:
    config = PartitionConfig(index_interval_bytes=200, transaction_partition_verification_enable=False)
    writer = Writer(config)
    for _ in range(3):
        writer.data(txn=False)
    size = writer.log.segments[0].batches[0].header.size
    assert size < 200 < 3 * size
    log = load(writer.log.files(), clean=False, now=NOW, config=config)
    before = len(log.segments[0].offset_index)
    for sequence in (3, 4, 5):
        log.append(data_batch(seq=sequence), now=NOW)
    assert len(log.segments[0].offset_index) == before
    log.append(data_batch(seq=6), now=NOW)
    assert log.segments[0].offset_index[-1].offset == 6
