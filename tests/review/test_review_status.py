"""What ``reticent review --status`` says: how far the review is, and the command that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.commands.review import Asked, command_of, nothing_to_review, status_text

CONFIG = Path("p/reticent.toml")


def document(num_done: int, **values: Any) -> dict[str, Any]:
    return {"num_total": 3, "num_done": num_done, "num_to_ask_again": 0, "num_disputed": 0, "agreement": []} | values


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        ("sample", "reticent review p/reticent.toml"),
        ("screening", "reticent review p/reticent.toml --screening"),
        ("held", "reticent review p/reticent.toml --held"),
    ],
)
def test_the_status_of_each_review_names_its_own_next_command(asked: Asked, command: str) -> None:
    open_, disputed, done = (
        status_text(document(n, **values), command_of(CONFIG, asked))
        for n, values in ((2, {}), (3, {"num_disputed": 1}), (3, {}))
    )
    assert f"the rest: `{command}`" in open_
    assert f"judged differently: `{command} --adjudicate`" in disputed
    assert "all are reviewed" not in open_ + disputed
    assert "`reticent run` uses the reviews" in done


@pytest.mark.parametrize(
    ("asked", "num_drawn", "told"),
    [
        ("screening", 0, "none was drawn. Raise sample.screening_fraction in p/reticent.toml"),
        ("screening", 2, "a copy that is masked whole. Raise sample.screening_fraction in p/reticent.toml"),
        ("sample", 2, "a copy that is masked whole. Raise sample.fraction or sample.min_sentences in p/reticent.toml"),
    ],
)
def test_an_empty_review_names_the_setting_that_draws_more_for_it(asked: Asked, num_drawn: int, told: str) -> None:
    text = nothing_to_review(asked, num_drawn, CONFIG)
    assert told in text
    assert text.endswith(f"then `{command_of(CONFIG, asked)}`")
