"""Recordings of a real broker, replayed against the rules of `spark_jobs/kafka`.

`python -m tests.recordings DIR…` replays any folder of the recordings' layout: `replies*.jsonl` (what clients
sent and the broker answered), `data/` (the log directory it left), `truth.jsonl` and
`truth_uncommitted.jsonl` (what consumers got), `offsets.json` and `dump/`. Every one of these that exists is
compared; `left_out` names every field that is not, with its reason.
"""
