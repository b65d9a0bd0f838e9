"""Runs a coroutine from code that is not asynchronous."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_async(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What `coroutine` returns; in a thread of its own where a loop is running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
