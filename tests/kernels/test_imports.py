"""Imported modules are no part of the garbage collections that pyspark runs after each task."""

import subprocess
import sys

TASK = """
import gc
from spark_jobs.kernels.imports import imports_frozen

with imports_frozen():
    during = gc.get_freeze_count()
    import decimal  # as pyspark imports some of its own in the first task
print(during > 0, gc.get_freeze_count() > during, len(gc.get_objects()) < gc.get_freeze_count())
"""


def test_modules_of_a_task_are_frozen_before_and_after_it() -> None:
    done = subprocess.run([sys.executable, "-c", TASK], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
