"""The reproduction of the papers: what is declared, how it resumes, and how verdicts follow from results."""

import json
import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from support.reproduced import COMPUTED, TRAINED

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce import base, comparisons, computed, corpora, drawings, page, results, running, verdicts
from benchmarks.reproduce.cells import SCALES, Compute, Impossible, LeftOut, Train, settings_of
from benchmarks.reproduce.papers import CELLS, CLAIMS, TEXTS, TITLES
from benchmarks.reproduce.verdicts import Alike, Below, Claim, Gap, Number, Ordering, Verdict
from pipelines.errors import ConfigError


def known(**values):
    """Results of trained cells by name, a value a seed."""
    found = {}
    for name, by_seed in values.items():
        cell = replace(TRAINED, name=name)
        done = [{"seed": seed, "value": value, "figures": {}} for seed, value in enumerate(by_seed)]
        found[name] = (cell, done)
    return found


# ---- what is declared


def test_every_cell_has_a_name_a_file_and_a_verdict_of_its_own(tmp_path):
    names = Counter(cell.identity for cell in CELLS)
    assert [name for name, num in names.items() if num > 1] == []
    files = Counter(results.path_of(tmp_path, cell, "small", 0) for cell in CELLS)
    assert [path.name for path, num in files.items() if num > 1] == []
    known_names = set(names)
    assert [name for claim in CLAIMS for rule in claim.rules for name in rule.names if name not in known_names] == []


@pytest.fixture(scope="module")
def configs(tmp_path_factory):
    made = {}
    for name, corpus in corpora.CORPORA.items():
        folder = tmp_path_factory.mktemp(name)
        (folder / "corpus.jsonl").write_text("{}\n", "utf-8")
        (folder / "reticent.toml").write_text(corpus.settings, "utf-8")
        made[name] = folder / "reticent.toml"
    return made


def test_the_settings_of_every_cell_are_valid_at_both_scales(configs, tmp_path):
    seen = set()
    for cell in CELLS:
        for scale in SCALES:
            run = cell.run
            key = json.dumps(settings_of(run, scale), sort_keys=True) if isinstance(run, Train) else cell.identity
            if key not in seen:
                running.checked(cell, scale, configs.get(getattr(run, "corpus", "")), tmp_path)
            seen.add(key)


def test_records_and_a_prefix_fit_into_the_starting_point():
    runs = [cell.run for cell in CELLS if isinstance(cell.run, Train) and cell.run.model == "base"]
    prefixed = [run for run in runs if run.small.get("train.adaptation") == "prefix"]
    assert prefixed
    assert all(int(run.small["train.context_length"]) + 10 <= base.RECIPES["small"].context for run in prefixed)


def test_wrong_settings_are_noticed(configs, tmp_path):
    wrong = replace(TRAINED, run=Train(corpus="wikitext", method="no_dp", small={"train.epochs": "none"}))
    with pytest.raises(ConfigError):
        running.checked(wrong, "small", configs["wikitext"], tmp_path)
    with pytest.raises(KeyError):
        running.checked(replace(TRAINED, run=Compute(function="nothing")), "small", tmp_path, tmp_path)


@pytest.mark.parametrize("changed", [{"place": "appendix"}, {"name": "a/b"}, {"printed": "some"}])
def test_a_cell_that_cannot_be_told_is_refused(changed):
    with pytest.raises(ValueError, match="jft/"):
        replace(TRAINED, **changed)


def test_the_papers_figures_stand_in_their_texts(shared_data):
    folder = shared_data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"no copies of the papers at {folder}")
    texts = {paper: re.sub(r"\s+", " ", (folder / file).read_text("utf-8")) for paper, file in TEXTS.items()}
    wrong = [
        f"{cell.identity}: {cell.printed}"
        for cell in CELLS
        if cell.printed and not re.search(rf"(?<![\d.]){re.escape(cell.printed)}(?!\d)", texts[cell.paper])
    ]
    assert wrong == []


# ---- computed cells


def figure_of(identity):
    cell = next(cell for cell in CELLS if cell.identity == identity)
    return cell.number, computed.FUNCTIONS[cell.run.function](**cell.run.arguments)[cell.measure]


@pytest.mark.parametrize(("corpus", "by_their_logs"), [("WikiText-2", 4.886), ("CustomerSim", 2.508)])
def test_selective_dp_spends_on_dpsgd_what_its_authors_counted(corpus, by_their_logs):
    printed, ours = figure_of(f"selective/table2/{corpus}, ε of DPSGD")
    assert ours == pytest.approx(printed, abs=0.005)
    assert ours == pytest.approx(by_their_logs, abs=0.001)  # WikiText-2: the last row of the authors' five CSV files


def test_a_schedule_saves_about_what_the_domain_paper_says():
    printed, ours = figure_of("domain/figure2/Redaction Schedule's privacy guarantee over JFT's")
    assert printed == 35
    assert ours == pytest.approx(100 * math.exp(-1), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["QNLI", "QQP", "MNLI"])
@pytest.mark.parametrize("target", [3, 8])
def test_conversions_of_larger_tasks_are_the_papers(task, target):
    for way, within in (("PLD", 0.001), ("the Gaussian limit", 0.01)):
        printed, ours = figure_of(f"strong/table1/{task}, ε = {target} by {way}")
        assert ours == pytest.approx(printed, rel=within)


# ---- the starting point


def test_articles_are_told_from_headings_and_dealt_out_for_good():
    text = [
        "",
        " = Plain maskray = ",
        "",
        " First . ",
        " = = Taxonomy = = ",
        " Second . ",
        " = 3 = ",
        "",
        " = Two = ",
        "",
    ]
    assert list(base.articles(text)) == [("Plain maskray", ["First .", "Second ."]), ("Two", [])]
    private = Path(base.__file__).with_name("articles.txt").read_text("utf-8").splitlines()[2:]
    assert len(private) == 128
    assert not any(base.is_public(title) for title in private)
    assert base.is_public("Valkyria Chronicles III")


def test_rows_begin_where_sentences_do_and_go_forward():
    assert base.starts([0, 1, 1, 0, 1, 1, 0, 1], 4) == [0, 3]
    assert base.starts([0, 1, 1, 1, 1, 1, 1, 0, 1, 1], 3) == [0, 7]  # a sentence longer than a row loses its end
    assert base.starts([0, 1], 4) == []


def test_a_killed_pre_training_ends_as_one_that_was_not(tmp_path, patch):
    recipe = base.Recipe(vocabulary=300, width=8, blocks=1, heads=1, context=8, rows=2, epochs=3)
    public = {"A": ["the cat sat on the mat . " * 9, "a dog ran over the hill . " * 9]}
    patch(base, "split_articles", lambda _: (public, {}))
    patch(base, "_held_out", lambda *_: {"perplexity_a_word_of_sentences": 1.0})
    whole = base.starting_point(tmp_path, tmp_path / "whole", recipe)
    calls = 0
    while (sliced := base.starting_point(tmp_path, tmp_path / "sliced", recipe, minutes=0)) is None:
        calls += 1
    assert calls > 2
    assert (whole / "model.safetensors").read_bytes() == (sliced / "model.safetensors").read_bytes()
    assert base.written(whole)["losses_each_100_steps"] == base.written(sliced)["losses_each_100_steps"]


# ---- verdicts


@pytest.mark.parametrize(
    ("small", "large", "word"),
    [
        ([10.0, 11.0, 10.5], [20.0, 21.0, 22.0], "reproduced"),
        ([20.0, 21.0, 22.0], [10.0, 11.0, 10.5], "not"),  # the wrong order is refuted
        ([10.0, 11.0, 30.0], [20.0, 21.0, 22.0], "partly"),  # the interval reaches the other side
        ([10.0], [20.0], "partly"),  # one seed has no interval
        ([20.0], [10.0], "not"),
        ([], [10.0], "not run here"),
    ],
)
def test_orderings_are_judged_by_intervals(small, large, word):
    assert Ordering("a", "b").judge(known(a=small, b=large)).word == word


@pytest.mark.parametrize(
    ("differences", "positive", "within"),
    [
        ([3.0], "partly", "not"),  # one training
        ([3.0, 3.1, 2.9], "reproduced", "not"),
        ([1.0, 1.5, 0.5], "partly", "partly"),  # from -0.24 to 2.24
    ],
)
def test_a_recorded_difference_is_judged_by_its_trainings(differences, positive, within):
    recorded = replace(TRAINED, measure="difference")
    figures = {"difference": fmean(differences), "of_seeds": differences}
    done = {recorded.identity: (recorded, [{"seed": 0, "value": fmean(differences), "figures": figures}])}
    assert verdicts.Positive(recorded.identity).judge(done).word == positive
    assert verdicts.Within(recorded.identity, 2.0).judge(done).word == within


def test_seeds_are_compared_with_themselves():
    far = known(a=[10.0, 100.0, 1000.0], b=[11.0, 111.0, 1102.0])
    assert Ordering("a", "b").judge(far).word == "reproduced"


@pytest.mark.parametrize(
    ("b", "word"),
    [
        ([11.0, 11.1, 11.2], "reproduced"),  # a tenth, beside a doubling
        ([40.0, 41.0, 42.0], "not"),
        ([11.0, 11.1, 19.0], "partly"),
        ([], "not run here"),
    ],
)
def test_gaps_are_compared_by_logarithms_seed_by_seed(b, word):
    some = known(a=[10.0, 10.1, 10.2], b=b, c=[100.0, 101.0, 102.0], d=[200.0, 203.0, 205.0])
    assert Gap(("a", "b"), ("c", "d")).judge(some).word == word
    assert set(Gap(("a", "b"), ("c", "d")).names) == {"a", "b", "c", "d"}


def test_bounds_alikeness_and_numbers():
    some = known(a=[2.0, 2.1, 2.2], b=[2.0, 2.15, 2.2])
    assert Below("a", 3.0).judge(some).word == "reproduced"
    assert Below("a", 2.0).judge(some).word == "not"
    assert Below("a", 2.15).judge(some).word == "partly"
    assert Alike("a", "b", 0.2).judge(some).word == "reproduced"
    assert Alike("a", "b", 0.001).judge(some).word == "not"


@pytest.mark.parametrize(("value", "word"), [(0.1586, "reproduced"), (0.26, "not"), (0.2, "reproduced")])
def test_numbers_are_compared_to_the_last_digit_printed(value, word):
    done = {COMPUTED.identity: (COMPUTED, [{"seed": 0, "value": value, "figures": {}}])}
    assert Number(COMPUTED.identity).judge(done).word == word
    near = {COMPUTED.identity: (replace(COMPUTED, printed="0.150"), [{"seed": 0, "value": value, "figures": {}}])}
    assert (Number(COMPUTED.identity).judge(near).word == "partly") == (value == 0.1586)


def test_a_claim_is_as_good_as_its_rules():
    def words(*given):
        return verdicts.together([Verdict(word, word) for word in given]).word

    assert words("reproduced", "reproduced") == "reproduced"
    assert words("not", "not") == "not"
    assert words("reproduced", "not") == words("partly", "partly") == "partly"
    assert words("reproduced", "not run here") == "not run here"
    assert words("not", "not possible here", "not run here") == "not run here"


def test_what_explains_a_verdict_is_told_and_not_judged_by():
    some = known(a=[10.0, 10.1, 10.2], b=[20.0, 20.1, 20.2], c=[9.0, 9.1, 9.2], d=[])
    claim = Claim(paper="jft", text="", rules=(Ordering("a", "b"),), context=(Ordering("a", "c"), Ordering("a", "d")))
    assert claim.judge(some).word == "reproduced"
    assert claim.background(some).startswith("a < c: -0.10")
    assert "a < d" not in claim.background(some)


def test_what_cannot_run_is_not_possible_and_says_why():
    cell = replace(TRAINED, run=Impossible(reason="no data"))
    some = {cell.identity: (cell, [])}
    assert verdicts.of_cell(cell, (), some) == Verdict("not possible here", "no data")
    assert Below(cell.identity, 1.0).judge(some) == Verdict("not possible here", "no data")
    assert verdicts.without_run(LeftOut(reason="a decision")) == Verdict("left out", "a decision")


def test_a_result_without_a_claim_or_a_number_is_not_compared():
    cell = replace(TRAINED, printed="")
    done = [{"seed": 0, "value": 2.0, "figures": {}}]
    assert verdicts.of_cell(cell, (), {cell.identity: (cell, done)}).word == "not compared"


# ---- the page


def shown(folder):
    """All pages of the results in a folder."""
    made = page.pages(page.known_results(folder, "small"), "small")
    return "\n".join(line for lines in made.values() for line in lines)


def test_the_page_has_every_claim_and_row_before_anything_ran(tmp_path):
    text = shown(tmp_path)
    assert all(claim.text in text for claim in CLAIMS)
    assert text.count("| **not run here** |") >= len([claim for claim in CLAIMS if claim.headline])
    assert not re.search(r"\*\*(reproduced|partly|not)\*\* \|", text)
    for cell in CELLS:
        line = next(line for line in text.splitlines() if line.startswith(f"| {cell.name} |"))
        assert re.search("(not run here|not possible here|left out): ", line)


def test_the_page_is_that_of_the_results(tmp_path):
    page.write(results.RESULTS, "small", docs=tmp_path)
    made = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md"))
    assert made == sorted(["reproductions.md", *(f"papers/{paper}.md" for paper in TITLES)])
    for name in made:
        written = (tmp_path / name).read_text("utf-8")
        assert written == (page.DOCS / name).read_text("utf-8"), "python -m benchmarks.reproduce --render"
    for picture in tmp_path.glob("images/*"):
        assert picture.read_bytes() == (page.DOCS / "images" / picture.name).read_bytes()


def test_the_page_shows_means_intervals_and_verdicts(tmp_path, patch):
    cells = [replace(TRAINED, name=name) for name in ("low", "high", "alone", "to come")]
    low, high, alone, to_come = (cell.identity for cell in cells)
    claims = [
        Claim(paper="jft", text=text, rules=(Ordering(*names),))
        for text, names in (("low is lower", (low, high)), ("below what is to come", (alone, to_come)))
    ]
    patch.constant(page, "CELLS", cells)
    patch.constant(page, "CLAIMS", (*claims, replace(claims[1], rules=(Ordering(low, to_come),))))
    patch.constant(page, "TITLES", {"jft": "JFT (2022)"})
    for cell, start in zip(cells[:3], (100.0, 400.0, 900.0), strict=True):
        for seed in range(3):
            word = start * (1 + seed / 100)
            tokens = {"perplexity": word**0.5} if cell.name != "high" else {}
            figures = {"perplexity_per_word": word, **tokens}
            results.write(tmp_path, cell, "small", seed, figures=figures, settings={}, seconds=1.0)
    patch.constant(page, "SUMMARIES", tmp_path)
    (tmp_path / "jft.md").write_text(f"# JFT\n\nIt is {{{low}}}, or {{{to_come}}} ([how](a.md)).\n", "utf-8")
    text = shown(tmp_path)
    assert "# JFT\n\nIt is 101, or (not run here) ([how](../a.md)).\n" in text
    assert "Of 3 claims 1 holds here, 2 did not run here." in text
    assert "| low | 27.05 perplexity | 10.05 (9.926 to 10.17) a token, 101 a word | 3 of 3 | reproduced |" in text
    assert "| high | 27.05 perplexity | 404 (394.1 to 413.9) a word | 3 of 3 | reproduced |" in text
    assert "| alone | 27.05 perplexity | 30.15 (29.78 to 30.52) a token, 909 a word | 3 of 3 | not compared: " in text
    assert '| to come | 27.05 perplexity |  | 0 of 3 | not run here: `--only "jft/table2/to come"` |' in text
    assert "| low is lower | **reproduced** | low < high: +1.39 (+1.39 to +1.39) |" in text


def test_a_perplexity_a_token_is_of_the_text_that_the_value_is_of():
    figures = {"perplexity": 10.0, "perplexity_per_word": 100.0, "perplexity_per_word_but_secrets": 50.0}
    assert page.perplexity_per_token({"figures": figures, "value": 100.0}) == pytest.approx(10.0)
    assert page.perplexity_per_token({"figures": figures, "value": 400.0}) == pytest.approx(20.0)  # before training
    assert page.perplexity_per_token({"figures": figures, "value": 50.0}) is None
    assert page.perplexity_per_token({"figures": {"perplexity_per_word": 100.0}, "value": 100.0}) is None


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        ([0.0, 0.1, 0.5], [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        ([0.0, 13.3], [0, 5, 10, 15]),
        ([6.0, 12.0], [6, 8, 10, 12]),
        ([612.0, 655.0], [610, 620, 630, 640, 650, 660]),
        ([-0.4, 3.1], [-1, 0, 1, 2, 3, 4]),
    ],
)
def test_axes_have_round_numbers_that_hold_every_point(values, marks):
    assert drawings.ticks(values) == pytest.approx(marks)
    assert drawings.ticks([5.0])[0] <= 5.0 <= drawings.ticks([5.0])[-1]


def test_drawings_have_the_points_of_the_results(tmp_path):
    place = running.Workplace(data_dir=tmp_path, work=tmp_path / "work", results=tmp_path / "results")
    for cell in command.chosen(["crt/figure6"]):
        running.run_cell(cell, "small", 0, place)
    found = page.known_results(place.results, "small")
    figure = next(f for f in drawings.FIGURES if (f.paper, f.place) == ("crt", "figure6"))
    points = {name: [drawings.points_of(found, cells)] for name, cells in figure.series.items()}
    assert points["ε' = 1"][0][1] == (0.1, pytest.approx(0.1586, abs=1e-4))
    picture = drawings.drawn(figure, points)
    assert len(picture.findall("polyline")) == 3
    assert all(name in found for f in drawings.FIGURES for cells in f.series.values() for name, _ in cells)


def test_comparisons_divide_by_the_same_row_on_either_side():
    cells = {name: replace(TRAINED, name=name, printed=printed) for name, printed in zip("abc", "842", strict=True)}
    some = {
        name: (cell, [{"seed": 0, "value": value, "figures": {}}])
        for (name, cell), value in zip(cells.items(), (10.0, 20.0, 40.0), strict=True)
    }
    drawn = comparisons.Comparison(paper="jft", title="", baseline="a", rows={"B": "b", "C": "c"})
    assert comparisons.ratios(drawn, some, page.in_the_papers_unit) == {"B": (0.5, 2.0), "C": (0.25, 4.0)}
    nothing = {**some, "a": (cells["a"], [])}
    assert comparisons.ratios(drawn, nothing, page.in_the_papers_unit) == {}


def test_names_that_the_truth_chose_make_any_model_right():
    assert computed.kept_by_truth(500.0, 0.4) == {"accuracy_percent": 100.0}
    assert computed.kept_by_truth(500.0, 1.0)["accuracy_percent"] == pytest.approx(50, abs=5)
