"""Recordings of a real broker, replayed against the protocol core.

`python -m tests.recordings DIR…` replays any folder of the recordings' layout: `replies*.jsonl` (what
clients sent and the broker answered), `data/` (the log directory it left), `truth.jsonl` and
`truth_uncommitted.jsonl` (what consumers got), `offsets.json` and `dump/`. Whatever of these is there is
compared; `left_out` names every field that is not, with its reason.
"""
