from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.pipeline.audit.worker import VerdictCounts
from spark_jobs.tables.admit import MARKER_OBJECT
from tests.pipeline.audit.batches import part


def test_every_verdict_counts_in_its_group() -> None:
    counts = VerdictCounts()
    counts.add(part(*({"verdict": verdict.value} for verdict in Verdict)))
    counts.add(part({"verdict": "accepted"}, {"verdict": "out_of_order"}))
    facts = counts.facts()
    assert facts["verdicts"] == len(Verdict) + 2
    assert (facts["accepted"], facts["corrupt"], facts["held"]) == (2, 1, 3)
    assert (facts["duplicate"], facts["overlap"]) == (1, 1)
    assert facts["out_of_order"] == 2
    groups = ("accepted", "duplicate", "overlap", "rejected", "corrupt", "held")
    assert sum(facts[name] for name in groups) == len(Verdict) + 2


def test_markers_that_the_run_made_did_not_come_in() -> None:
    counts = VerdictCounts()
    counts.add(part({}, {"object_order": MARKER_OBJECT}))
    assert counts.facts()["verdicts"] == 1


def test_a_word_that_is_no_verdict_is_none() -> None:
    counts = VerdictCounts()
    counts.add(part({"verdict": "fine"}))
    assert counts.facts()["verdicts"] == 0
