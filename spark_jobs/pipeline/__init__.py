"""The nine steps, a package each; steps meet in tables."""
