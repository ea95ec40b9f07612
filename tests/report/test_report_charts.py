"""Charts draw what they say, in proportion, and escape what they print."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.report.charts import Interval, coverage_bars, interval_plot, learning_curves, shard_bar
from pipelines.report.comparison_charts import Figure, dot_plot, privacy_utility
from pipelines.report.render import _roc_chart
from pipelines.report.svg import WIDTH, Axis

_PRINTABLE = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)


def _parse(svg: object) -> ElementTree.Element:
    assert svg is not None
    return ElementTree.fromstring(str(svg))


@given(st.dictionaries(_PRINTABLE, st.integers(1, 10**6), min_size=1, max_size=30))
@settings(deadline=None, max_examples=60)
def test_bars_are_proportional_ordered_and_lose_no_token(counts: dict[str, int]) -> None:
    svg = _parse(coverage_bars(counts))
    widths = [float(rect.attrib["width"]) for rect in svg.iter("rect")]
    assert len(widths) == min(len(counts), 14)
    if len(counts) <= 14:
        ranked = sorted(counts.values(), reverse=True)
        for width, value in zip(widths, ranked, strict=True):
            assert width == pytest.approx(max(1.0, widths[0] * value / ranked[0]), abs=0.02)
    shown = [t.text for t in svg.iter("text") if t.attrib["text-anchor"] == "start"]
    assert sum(int((t or "0").replace(",", "")) for t in shown) == sum(counts.values())


def test_a_long_label_is_shown_whole() -> None:
    label = "NUMBER_OF_THE_CUSTOMER and the parcel that he waits for"
    svg = _parse(coverage_bars({label: 3, "A": 2}))
    words = [t.text or "" for t in svg.iter("text") if t.attrib["text-anchor"] == "end"]
    assert " ".join(words) == f"{label} A"
    tops = [float(rect.attrib["y"]) for rect in svg.iter("rect")]
    lines = [float(t.attrib["y"]) for t in svg.iter("text") if t.attrib["text-anchor"] == "end"]
    assert lines[-2] < tops[1] < lines[-1]


def test_a_label_cannot_break_out_of_a_chart() -> None:
    svg = coverage_bars({'<script>alert("1")</script>': 3})
    assert "<script" not in str(svg)
    assert _parse(svg).attrib["role"] == "img"


def test_no_masked_token_draws_nothing() -> None:
    assert coverage_bars({}) is None
    assert coverage_bars({"A": 0}) is None


def test_the_stacked_bar_fills_the_width() -> None:
    svg = _parse(shard_bar([("public", "a", 1), ("private", "b", 2), ("duplicate", "c", 1)]))
    bars = [r for r in svg.iter("rect") if r.attrib["height"] == "28"]
    assert [float(r.attrib["width"]) for r in bars] == [WIDTH / 4, WIDTH / 2, WIDTH / 4]
    assert [float(r.attrib["x"]) for r in bars] == [0, WIDTH / 4, 3 * WIDTH / 4]
    assert shard_bar([("public", "a", 0)]) is None
    assert shard_bar([("public", "a", 3), ("private", "b", -1)]) is None


def test_intervals_keep_order_on_the_axis_and_show_zero_as_an_arrow() -> None:
    svg = _parse(interval_plot([Interval("m", 0.01, 0.001, 0.1), Interval("d", 0.0, None, 0.01)]))
    (dot,) = svg.iter("circle")
    whiskers = [line.attrib for line in svg.iter("line") if line.attrib["class"] == "whisker"]
    low, high = float(whiskers[0]["x1"]), float(whiskers[0]["x2"])
    assert low < float(dot.attrib["cx"]) < high
    assert float(dot.attrib["cx"]) - low == pytest.approx(high - float(dot.attrib["cx"]), abs=0.02)  # decades
    assert len(list(svg.iter("polygon"))) == 1
    assert "d estimated 0" in svg.attrib["aria-label"]


def test_an_unmeasured_rate_is_written_out() -> None:
    svg = _parse(interval_plot([Interval("m", 0.01, None, 0.1), Interval("d", None, None, None)]))
    assert "not measured" in [t.text for t in svg.iter("text")]
    assert interval_plot([Interval("d", None, None, None)]) is None


def test_learning_curves_leave_out_what_cannot_be_drawn() -> None:
    svg = _parse(
        learning_curves({"a": [(1, 5.0), (2, 3.0)], "b": [(1, 4.0)], "c": [(1, float("nan")), (2, 1.0)]}, "epoch", "y")
    )
    (line,) = svg.iter("polyline")
    first, last = (tuple(map(float, p.split(","))) for p in line.attrib["points"].split())
    assert first[0] < last[0]
    assert first[1] < last[1]  # a falling loss falls on the page
    assert learning_curves({"b": [(1, 4.0)]}, "epoch", "y") is None
    assert learning_curves({}, "epoch", "y") is None


@pytest.mark.parametrize(
    ("values", "ticks", "is_log"),
    [
        ([1.0, 1536.0], [1, 10, 100, 1000], True),
        ([20.0, 300.0], [20, 50, 100, 200], True),
        ([90.0, 110.0], [90, 95, 100, 105, 110], False),
        ([0.0, 24.0], [0, 5, 10, 15, 20, 25], False),
        ([0.1, 0.1 + 1e-17], [0.09, 0.095, 0.1, 0.105, 0.11], False),
        ([0.8123, 0.8124], [0.75, 0.8, 0.85], False),  # noise, which no zoom makes an effect
        ([-3.0, 5.0], [-2, 0, 2, 4], False),
        ([7e-7, 3e9], [1e-7, 1e-4, 0.1, 100, 1e5, 1e8], True),
    ],
)
def test_an_axis_is_logarithmic_where_values_span_an_order_and_has_round_numbers(
    values: list[float], ticks: list[float], is_log: bool
) -> None:
    axis = Axis.over(values)
    assert axis.is_log is is_log
    assert axis.ticks() == pytest.approx(ticks)
    assert 0 < axis.share(values[0]) < axis.share(values[-1]) < 1 or values[0] == values[1]


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=5))
@settings(deadline=None, max_examples=60)
def test_every_axis_has_some_ticks_and_stays_where_the_figure_can_be(values: list[float]) -> None:
    axis = Axis.over(values, least=min(values))
    assert axis.low >= min(values)
    assert 1 <= len(axis.ticks()) <= 6
    labels = [label for _, label in axis.labelled_ticks()]
    assert len(set(labels)) == len(labels)
    assert [0 <= axis.share(tick) <= 1 for tick in axis.ticks()]


def test_labels_of_ticks_do_not_repeat() -> None:
    axis = Axis(12345.1, 12345.9, is_log=False)
    assert [label for _, label in axis.labelled_ticks()] == ["12,345.2", "12,345.4", "12,345.6", "12,345.8"]


def test_curves_have_round_ticks_and_whole_epochs() -> None:
    points = [(1.0, 4.0123), (2.0, 3.7), (3.0, 3.4177)]
    svg = _parse(learning_curves({"held out": points}, "epoch", "loss"))
    assert [t.text for t in svg.iter("text")] == [
        *("loss", "3.4", "3.6", "3.8", "4", "1", "2", "3", "epoch", "held out")
    ]


def test_guessing_is_a_line_from_corner_to_corner() -> None:
    svg = _parse(_roc_chart({"membership": {"roc": {"a": [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]}}}))
    (curve,) = svg.iter("polyline")
    first, *_, last = curve.attrib["points"].split()
    (guess,) = [line for line in svg.iter("line") if line.attrib["class"] == "whisker"]
    assert [f"{guess.attrib[f'x{end}']},{guess.attrib[f'y{end}']}" for end in (1, 2)] == [first, last]
    plain = _parse(learning_curves({"a": [(0, 1), (1, 0)]}, "x", "y"))
    assert "whisker" not in {line.attrib["class"] for line in plain.iter("line")}


_PERPLEXITY = Figure(title="perplexity", least=1.0)
_LONG = "a-settings-file-with-a-long-name.toml jft/light_noise"
_ROWS = [
    (_LONG, {"mean": 440.0, "low": 1.0, "high": 1536.0}),
    ("crt", {"mean": 21.0, "low": 20.0, "high": 22.0}),
    ("no_dp", {"mean": 33.0, "low": None, "high": None}),
]


def test_an_epsilon_that_reads_the_same_is_one_column_and_large_ticks_have_room() -> None:
    values = [{"mean": mean, "low": 1.0, "high": 9e6} for mean in (10.0, 2e6, 300.0)]
    points = list(zip("abc", (2.99998, 2.99999, 1.5), values, strict=True))
    svg = _parse(privacy_utility(points, _PERPLEXITY))
    words = [text.text for text in svg.iter("text")]
    assert (words.count("3"), words.count("1.5")) == (2, 1)  # 3 is the number of the third point, too
    (wide,) = (text for text in svg.iter("text") if text.text == "1,000,000")
    assert float(wide.attrib["x"]) >= 7.4 * len("1,000,000")


def test_a_comparison_draws_every_interval_and_the_whole_name() -> None:
    points = [(name, epsilon, values) for (name, values), epsilon in zip(_ROWS, (3.0, 3.0, float("inf")), strict=True)]
    for chart in (dot_plot(_ROWS, _PERPLEXITY), privacy_utility(points, _PERPLEXITY)):
        svg = _parse(chart)
        words = [text.text or "" for text in svg.iter("text")]
        assert "logarithmic" in words[0]
        assert not any(word.startswith("-") or "…" in word for word in words)
        assert _LONG in " ".join(words)
        assert len(list(svg.iter("circle"))) == 3
        whiskers = [line.attrib for line in svg.iter("line") if line.attrib["class"] == "whisker"]
        assert len(whiskers) == 6  # a line and two ends, of two of the three
        places = [float(line[name]) for line in whiskers for name in ("x1", "x2")]
        assert 0 <= min(places) < max(places) <= WIDTH
    assert dot_plot([("crt", {"mean": None, "low": None, "high": None})], _PERPLEXITY) is None


def test_points_of_one_epsilon_stand_side_by_side() -> None:
    values = {"mean": 5.0, "low": None, "high": None}
    svg = _parse(privacy_utility([(f"m{n}", 3.0, values) for n in range(5)], _PERPLEXITY))
    places = [float(dot.attrib["cx"]) for dot in svg.iter("circle")]
    assert min(after - before for before, after in itertools.pairwise(places)) > 8
