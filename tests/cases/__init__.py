"""Titled inputs and expected results, shared by the tests of every implementation."""
