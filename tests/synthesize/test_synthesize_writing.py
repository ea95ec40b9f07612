"""Rows are written as the model would write them one by one, whatever batch they stand in."""

import numpy as np
import pytest
import torch
from scipy import stats
from small_writers import CONTEXT, VOCABULARY, writer

from pipelines.errors import ConfigError
from pipelines.synthesis.plan import Lengths, Mix, Plan
from pipelines.synthesis.writing import Asked, Decoding, continued, prompt_ids, write
from pipelines.training.encoded import Record
from pipelines.training.models.drawing import drawn_at, likely
from pipelines.training.scoring.generation import BeamSearch, generate_each, never_written

MOST = 20


def asked(model, num=12, lengths=lambda number: (0, MOST)):
    """Prompts of unequal length, each with numbers of its own."""
    prompts = [Record(texts=["ab" * (n % 5)], speakers=[("SYS", "USR", None)[n % 3]]) for n in range(num)]
    return [
        Asked(
            prompt=prompt_ids(model, prompt),
            fewest=lengths(number)[0],
            most=lengths(number)[1],
            uniforms=np.random.default_rng(number).random(MOST),
        )
        for number, prompt in enumerate(prompts)
    ]


@pytest.mark.parametrize("kind", ["gpt2", "llama", pytest.param("prefix", marks=pytest.mark.slow)])
def test_greedy_texts_are_those_of_transformers(kind):
    model = writer(kind)
    rows = asked(model)
    if kind == "prefix":  # whose own generation counts padding as positions
        rows = [row for row in rows if len(row.prompt) == len(rows[0].prompt)]
    ours = continued(model, rows, Decoding(temperature=0, batch_size=10))
    how = BeamSearch(num_beams=1, max_new_tokens=MOST, batch_size=64)
    theirs = generate_each(model.model, VOCABULARY.tokenizer, [row.prompt for row in rows], model.control, how)
    assert [VOCABULARY.tokenizer.decode(ids).strip() for ids in ours] == [text for (text,) in theirs]
    assert len({tuple(ids) for ids in ours}) > 1


@pytest.mark.parametrize("kind", ["gpt2", "lstm", "gru", pytest.param("prefix", marks=pytest.mark.slow)])
def test_a_rows_text_does_not_hang_on_the_rows_beside_it(kind):
    model = writer(kind)
    rows = asked(model, 8, lambda number: (0, 4 + 2 * number))
    alone = continued(model, rows, Decoding(batch_size=1))
    assert len({len(ids) for ids in alone}) > 2, "rows must end at different steps, or no batch ever shrinks"
    for size in (3, 64):
        assert continued(model, rows, Decoding(batch_size=size)) == alone
    backwards = continued(model, rows[::-1], Decoding(batch_size=3))
    assert backwards[::-1] == alone


@pytest.mark.parametrize("kind", ["gpt2", "lstm"])
def test_lengths_are_kept_and_no_control_token_is_written(kind):
    model = writer(kind)
    ranges = [(1, 4), (6, 6), (8, MOST)]
    rows = asked(model, lengths=lambda number: ranges[number % 3])
    written = continued(model, rows, Decoding(temperature=1.5, top_p=0.9, batch_size=9))
    for row, ids in zip(rows, written, strict=True):
        assert row.fewest <= len(ids) <= row.most
    ids = {token for one in written for token in one}
    assert not ids & {*never_written(model.control), *model.control.ends}


def test_tokens_are_drawn_with_the_probabilities_of_the_model():
    logits = torch.tensor([[0.0, 1.0, -torch.inf, 2.0, -1.0]])
    uniforms = torch.from_numpy(np.random.default_rng(0).random(20_000))
    drawn = drawn_at(logits.expand(len(uniforms), -1), uniforms)
    counts = torch.bincount(drawn, minlength=5)
    assert counts[2] == 0
    kept = [0, 1, 3, 4]

    def p_value(temperature):
        expected = (likely(logits, temperature=temperature).softmax(-1)[0][kept] * len(uniforms)).double().numpy()
        return stats.chisquare(counts[kept].numpy(), expected * len(uniforms) / expected.sum()).pvalue

    assert p_value(1.0) > 1e-3
    assert p_value(1.05) < 1e-6  # and another temperature is told from it
    edge = torch.tensor([[0.0, 0.0, -torch.inf]])
    assert drawn_at(edge, torch.tensor([1 - 1e-17], dtype=torch.float64)).item() == 1
    assert drawn_at(edge, torch.tensor([0.0], dtype=torch.float64)).item() == 0


def plan(**changes):
    none = Mix(names=("SYS", "USR"), shares=(0.5, 0.5))
    values = {"domains": Mix(names=(None,), shares=(1.0,)), "speakers": none, "turns": 1, "seed": 3}
    return Plan(**{**values, "lengths": Lengths.of({}, 8), **changes})


def test_later_turns_are_given_the_earlier_ones():
    model = writer(task="dialogue")
    three = plan(turns=3)
    turns = [three.turn(row) for row in range(12)]
    found = {(turn.record, turn.turn): text for turn, text in write(model, turns, Decoding(batch_size=5))}
    assert list(found) == [(record, turn) for turn in range(3) for record in range(4)]
    for record in range(4):
        assert turns[3 * record].speaker != turns[3 * record + 1].speaker != turns[3 * record + 2].speaker
    (first, second) = (found[0, 0].text, found[0, 1].text)
    prompt = Record(texts=[first, second, ""], speakers=[turns[at].speaker for at in range(3)], domains=[None] * 3)
    last = turns[2]
    row = Asked(prompt=prompt_ids(model, prompt), fewest=last.fewest, most=last.most, uniforms=last.uniforms)
    (ids,) = continued(model, [row], Decoding())
    assert VOCABULARY.tokenizer.decode(ids).strip() == found[0, 2].text


def test_a_text_that_has_no_room_is_refused():
    model = writer()
    with pytest.raises(ConfigError, match=f"no room for {CONTEXT} more in a context of {CONTEXT}"):
        continued(model, asked(model, 1, lambda number: (0, CONTEXT)), Decoding())
