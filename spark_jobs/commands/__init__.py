"""The commands of `onceover`, one module each: arguments in, exit code out."""
