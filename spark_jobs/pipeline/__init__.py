"""The nine steps, a package each; steps exchange tables."""
