"""The ten steps, a package each; steps exchange tables."""
