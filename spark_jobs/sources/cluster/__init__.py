"""`kind: cluster`: the raw log of a live cluster, fetched into segments under the lake.

`stage` fetches before it lists. One run date is one cut: from where the last cut ended to the high watermark
that the leaders report. Read on in: `reader` (the source, and its remarks on a run), `cut` (what is fixed),
`planning` (asks the leaders), `fetching` (what a Spark task does), `segments` (what it writes), `brokers`,
`credentials` and `wire` (connections, requests). Only `brokers` and `wire` import aiokafka, which is an
extra: no module imports them before a fetch.
"""
