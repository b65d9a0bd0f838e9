"""The configuration: one YAML file, checked when loaded, frozen afterwards."""
