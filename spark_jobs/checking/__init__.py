"""The checks of `onceover check`: each part of a lake yields findings, nothing is changed."""
