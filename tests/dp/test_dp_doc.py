"""The example in the documentation runs as it stands."""

import re

import pytest
from support import REPOSITORY


@pytest.mark.slow
def test_the_documented_loop_runs(capsys):
    text = (REPOSITORY / "docs" / "engine.md").read_text()
    example, *_ = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(compile(example, "docs/engine.md", "exec"), {})
    epsilon, steps = capsys.readouterr().out.split()
    assert 7.9 < float(epsilon) <= 8.0
    assert int(steps) == 4
