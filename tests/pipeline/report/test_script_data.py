"""Data files are scripts of one call: any value survives, and none can leave its string."""

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.pipeline.report.site_files import from_script, to_script

TEXTS = st.text(st.characters(), max_size=20)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_goes_in_comes_out(value: Any) -> None:
    assert from_script(to_script("some/name", value)) == value


@given(TEXTS)
def test_no_text_can_end_the_script_or_begin_markup(text: str) -> None:
    script = to_script("name", {text: text}).decode("ascii")
    assert not re.search(r"[<>&\x00-\x09\x0b-\x1f]", script)


def test_a_name_that_no_encoding_knows_is_kept() -> None:
    assert from_script(to_script("name", "\udcff")) == "\udcff"


def test_a_script_is_one_call_with_json() -> None:
    script = to_script("a/b", {"x": "</script>"}).decode()
    assert script == 'onceover.take(["a/b",{"x":"\\u003c/script\\u003e"}]);\n'
    assert json.loads(script[len("onceover.take(") : -len(");\n")])[1] == {"x": "</script>"}
