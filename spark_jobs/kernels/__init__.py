"""Compiled twins of the hot parts of `protocol`, equal to it by test."""
