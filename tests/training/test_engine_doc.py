"""The example in the documentation runs as it stands."""

import re
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_documented_loop_runs(capsys):
    text = (Path(__file__).parents[2] / "docs" / "engine.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(compile(example, "docs/engine.md", "exec"), {})
    epsilon, steps = capsys.readouterr().out.split()
    assert 7.9 < float(epsilon) <= 8.0
    assert int(steps) == 4
