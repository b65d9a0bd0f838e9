"""`stage`: fixes a run's inputs in a manifest (`step`), and copies or references its objects (`fetch`)."""
