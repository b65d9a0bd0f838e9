"""A writer of Parquet files for tables of records: what takes most of a night's time, done by kernels.

Arrow's own writer does the same for any table; this one knows fewer types, and for those it takes less time.
The format is that of https://parquet.apache.org/docs/file-format/.
"""
