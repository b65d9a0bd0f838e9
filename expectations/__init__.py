"""Expectations that must hold before a run is published: suites of numbers, their judge, and the gate."""
