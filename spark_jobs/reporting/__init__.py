"""The dashboard: view models, templates and assets."""
