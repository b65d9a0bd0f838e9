# One image for Airflow and for Spark's workers: the same Python and the same pins wherever code runs.
# Build it from the repository's root: docker build -f infra/images/onceover.Dockerfile -t onceover .
FROM python:3.11.13-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home onceover \
    && install --directory --owner=onceover --group=onceover /onceover /airflow /metrics /spark

USER onceover
WORKDIR /onceover
COPY --chown=onceover:onceover . .
RUN python infra/setup/venv.py

ENV PATH="/onceover/.venv/bin:${PATH}" \
    PYTHONUNBUFFERED=1
ENTRYPOINT ["/onceover/infra/images/entrypoint.sh"]
