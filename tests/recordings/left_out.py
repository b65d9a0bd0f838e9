"""What is not compared, and what a replay takes from the recording instead of deciding it.

Printed by `python -m tests.recordings --explain`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A name and its reason."""

    name: str
    reason: str


LEFT_OUT: tuple[Note, ...] = (
    Note(
        name="label, note, outcomes.json, TABLE.md, open_at_end",
        reason="what the generator meant or believed, not what the broker answered",
    ),
    Note(
        name="reply.error",
        reason="the name of error_code, which is compared",
    ),
    Note(
        name="wording of error_message and record_errors",
        reason="the broker's own sentences; that there is a message and which records it names is compared",
    ),
    Note(
        name="fields that an API version does not carry",
        reason="log_start_offset before Produce v5, record_errors and error_message before v8",
    ),
    Note(
        name="response_b64",
        reason="the frame that reply was decoded from",
    ),
    Note(
        name="roll points of __transaction_state",
        reason="the segment size of internal topics is not recorded; keys and values are compared",
    ),
    Note(
        name="place of one transactional id's records among another's in __transaction_state",
        reason="the broker completes them on its own threads; each id's records are compared in order",
    ),
    Note(
        name="order of partitions inside a __transaction_state value",
        reason="the order of the broker's hash map; the partitions are compared as a set",
    ),
    Note(
        name="records that the cleaner removed",
        reason="when it runs is the broker's clock; survivors are compared, and the newest of each key",
    ),
    Note(
        name="timestamps in a __transaction_state partition that was cleaned",
        reason="the record that would show the broker's clock is gone",
    ),
    Note(
        name="values of group records in __consumer_offsets",
        reason="membership is no part of exactly-once; keys, sizes and every offset commit are compared",
    ),
    Note(
        name="order of entries inside a .snapshot",
        reason="the order of the broker's hash map (facts §1.8); entries are compared by producer id",
    ),
    Note(
        name=".index, .timeindex, and the .index and .timeindex parts of dumps",
        reason="derived from the log, preallocated after a kill, and no part of exactly-once",
    ),
    Note(
        name="remarks of kafka-dump-log below the last file",
        reason="non-consecutive offsets are legal after markers and compaction (facts §1.18)",
    ),
    Note(
        name="partition.metadata, meta.properties, bootstrap.checkpoint, __cluster_metadata",
        reason="random ids and the controller's own log",
    ),
)

FED_IN: tuple[Note, ...] = (
    Note(
        name="log append times",
        reason="the broker's clock; taken from the reply (data) or the recorded log at that offset (markers)",
    ),
    Note(
        name="marker timestamps, and update and start times in __transaction_state",
        reason="the broker's clock; taken from the recorded record that the replay is about to write",
    ),
    Note(
        name="deleted segments, and the log start after a kill",
        reason="both depend on timers; taken from the directory as it is in the end, and from later replies",
    ),
    Note(
        name="when markers are written that a restarted coordinator sends again",
        reason="the broker's own threads; the recorded log shows between which batches they are",
    ),
    Note(
        name="leader epochs",
        reason="assigned by the controller; taken from the recorded batch or leader-epoch-checkpoint",
    ),
    Note(
        name="the clock against which timestamps and expiry are judged",
        reason="the last log append time or range in an error message, or else the clients' usual timestamp",
    ),
    Note(
        name="checks of producer expiry that run at least once a second",
        reason="the time between two requests is not recorded; such a check is assumed to run between them",
    ),
    Note(
        name="the moment at which a transaction times out",
        reason="its scan runs every ten seconds; a transaction ends when no scan can have missed it",
    ),
    Note(
        name="the largest transaction timeout that the broker allows",
        reason="its setting is not recorded; at least what it accepted",
    ),
    Note(
        name="topic settings without a meta event",
        reason="LogAppendTime shows in the recorded log; compaction and size limits go by the topic's name",
    ),
)
