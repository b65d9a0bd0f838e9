"""Airflow's own REST interface, as far as it is needed here."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from infra.embedded.home import USER, EmbeddedFailed, Home
from infra.embedded.services import check_alive

POOL = {
    "name": "onceover",
    "slots": 1,
    "description": "One task of a lake at a time.",
    "include_deferred": True,
}
SECONDS_TO_START, SECONDS_BETWEEN_LOOKS = 180.0, 0.5
REQUEST_SECONDS = 60


class Refused(EmbeddedFailed):
    """Airflow rejected a request, with its reason."""

    def __init__(self, status: int, detail: str) -> None:
        self.status, self.detail = status, detail
        super().__init__(f"Airflow refused ({status}): {detail}")

    @property
    def is_busy(self) -> bool:
        """Another writer had the database for too long; nothing was changed."""
        return self.status == HTTP_BUSY or "Database error" in self.detail


@dataclass(frozen=True)
class Api:
    """The interface of a running Airflow."""

    home: Home

    def get(self, path: str) -> Any:
        return self._ask("GET", f"/api/v2/{path}", None, self._token)

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        return self._ask("POST", f"/api/v2/{path}", body, self._token)

    def patch(self, path: str, body: Mapping[str, object]) -> Any:
        return self._ask("PATCH", f"/api/v2/{path}", body, self._token)

    def wait_until_ready(self, *dag_ids: str) -> None:
        """Waits until all services are healthy and the DAGs are loaded; raises if a DAG file has an import
        error.
        """
        self._wait(self._is_healthy)
        self._wait(lambda: self._knows(dag_ids))

    def make_pool(self) -> None:
        try:
            self.post("pools", POOL)
        except Refused as refused:
            if refused.status != HTTP_CONFLICT:
                raise

    def trigger(self, dag_id: str, conf: Mapping[str, object]) -> str:
        """A new run of the DAG; its id."""
        return str(self.post(f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.get(f"dags/{dag_id}/dagRuns/{quote(run_id)}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The run's task instances."""
        return list(self.get(f"dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances")["task_instances"])

    @cached_property
    def _token(self) -> str:
        body = {"username": USER, "password": self.home.password}
        return str(self._ask("POST", "/auth/token", body, "")["access_token"])

    def _is_healthy(self) -> bool:
        health = self._ask("GET", "/api/v2/monitor/health", None, "")
        parts = ("metadatabase", "scheduler", "dag_processor")
        return all(health[part]["status"] == "healthy" for part in parts)

    def _knows(self, dag_ids: tuple[str, ...]) -> bool:
        for problem in self.get("importErrors")["import_errors"]:
            raise EmbeddedFailed(f"{problem['filename']} cannot be read:\n{problem['stack_trace']}")
        return set(dag_ids) <= {dag["dag_id"] for dag in self.get("dags")["dags"]}

    def _wait(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            check_alive(self.home)
            try:
                if holds():
                    return
            except (URLError, HTTPException, OSError):
                pass  # not up yet
            time.sleep(SECONDS_BETWEEN_LOOKS)
        raise EmbeddedFailed(
            f"Airflow did not come up in {SECONDS_TO_START:.0f} s; see {self.home.directory}"
        )

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None, token: str) -> Any:
        """The response; retries while SQLite's single writer is busy."""
        for _ in range(TRIES_WHILE_BUSY):
            try:
                return self._ask_once(method, path, body, token)
            except Refused as refused:
                if not refused.is_busy:
                    raise
                time.sleep(SECONDS_BETWEEN_LOOKS)
        return self._ask_once(method, path, body, token)

    def _ask_once(self, method: str, path: str, body: Mapping[str, object] | None, token: str) -> Any:
        headers = {
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.home.url}{path}", data=data, headers=headers, method=method)  # noqa: S310 — loopback
        try:
            with urlopen(request, timeout=REQUEST_SECONDS) as answer:  # noqa: S310 — likewise
                return json.load(answer)
        except HTTPError as error:
            raise Refused(error.code, _detail(error.read())) from None


HTTP_CONFLICT, HTTP_BUSY = 409, 503
TRIES_WHILE_BUSY = 20


def _detail(body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")
