"""`python -m spark_jobs` is `onceover`."""

from spark_jobs.cli import main

if __name__ == "__main__":
    main()
