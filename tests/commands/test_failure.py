"""How commands end: what an interrupt is worth wherever it arrives."""

import subprocess
import sys

import pytest

SENTENCE = "onceover: interrupted; run the same command again"
BEGINNING = """
import logging, signal, sys, threading, time
import typer
from spark_jobs.commands.failure import reported_failures
from spark_jobs.kafka.errors import OnceoverError

class Failed(OnceoverError): pass

def interrupt(): signal.raise_signal(signal.SIGINT)

app = typer.Typer(pretty_exceptions_enable=False)

@app.command()
def command():
    with reported_failures():
"""
CASES = {
    "plain": "interrupt()",
    "replaced by an error of ours": """
try: interrupt()
except KeyboardInterrupt: raise Failed("job cancelled")
""",
    "replaced by an error of a library": """
try: interrupt()
except BaseException: raise ImportError("no such thing")
""",
    "raised in a finaliser": """
class Finalised:
    def __del__(self): interrupt()
Finalised()
while True: time.sleep(0.01)
""",
    "while threads fail": """
gone = threading.Event()
def fail():
    gone.wait()
    logging.getLogger("py4j").error("connection lost")
    raise ConnectionError("gone")
thread = threading.Thread(target=fail)
thread.start()
class Late:
    def __del__(self): raise ValueError("late")
sys.late = Late()
try: interrupt()
finally: threading.Timer(0.2, gone.set).start()
""",
}


def _run(body: str) -> "subprocess.CompletedProcess[str]":
    indented = "".join(f"        {line}\n" for line in body.strip().splitlines())
    program = f"{BEGINNING}{indented}\napp()\n"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("case", CASES)
def test_an_interrupt_is_one_sentence(case: str) -> None:
    done = _run(CASES[case])
    assert (done.returncode, done.stderr.splitlines()) == (130, [SENTENCE])


def test_errors_without_an_interrupt_are_what_they_are() -> None:
    ours, other = _run('raise Failed("no space")'), _run('raise ValueError("a bug")')
    assert (ours.returncode, ours.stderr.splitlines()) == (1, ["onceover: no space"])
    assert (other.returncode, other.stderr.splitlines()[-1]) == (1, "ValueError: a bug")
