"""Sequence arithmetic inside kernels: the pure functions themselves, compiled (facts §2.2)."""

from spark_jobs.kernels.compile import helper
from spark_jobs.protocol import sequence

increment_sequence = helper(sequence.increment_sequence)
decrement_sequence = helper(sequence.decrement_sequence)
in_sequence = helper(sequence.in_sequence)
is_at_or_before = helper(sequence.is_at_or_before)
