"""Expectations that must hold before a run is published: suites, custom expectations, and the gate."""
