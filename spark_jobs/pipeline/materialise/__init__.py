"""`materialise`: committed batches decoded into files of records."""
