"""Selects what a lake no longer needs; the holder of the lake's lock removes it."""
