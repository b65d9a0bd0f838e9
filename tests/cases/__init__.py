"""Titled inputs and what must come of them, shared by the tests of every implementation."""
