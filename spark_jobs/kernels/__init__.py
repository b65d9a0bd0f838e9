"""Compiled twins of the hot parts of `kafka` and of the text writers of `inspect`, equal to them by test."""
