"""Curves of results that authors published: read in the order of the training, thinned, and kept out of the project."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.reproduce import authors, candidates, page
from benchmarks.reproduce.papers import CELLS

FIGURE = authors.CURVES[0].figure


def curves(**fields):
    return authors.Curves(figure=FIGURE, files={"one": "runs/*.csv"}, **fields)


def written(folder, name, rows):
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    lines = ["epoch,model_ppl,canary_exposure", *(",".join(map(str, row)) for row in rows)]
    (folder / "runs" / name).write_text("\n".join(lines) + "\n", "utf-8")


def test_a_curve_is_the_mean_of_its_seeds_in_the_order_of_the_training(tmp_path):
    # The last checkpoint stands first, as in JFT's files; the second seed was stopped earlier.
    written(tmp_path, "seed1.csv", [(3, 20, 9), (0, 50_000, 1), (1, 300, 2), (2, 100, 4)])
    written(tmp_path, "seed2.csv", [(0, 50_000, 1), (1, 500, 4)])
    assert curves().lines(tmp_path) == {"one": [(50_000, 1), (400, 3)]}
    assert curves(most_x=600).lines(tmp_path) == {"one": [(400, 3)]}


def test_a_curve_without_a_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"runs/\*.csv"):
        curves().lines(tmp_path)


@pytest.mark.parametrize("num", [1, 12, 13, 200])
def test_thinned_curves_keep_their_ends(num):
    points = [(float(n), 0.0) for n in range(num)]
    found = authors.thinned(points)
    assert len(found) == min(num, authors.MOST_POINTS) == len(set(found))
    assert (found[0], found[-1]) == (points[0], points[-1])


def test_points_without_a_licence_do_not_reach_the_documentation(tmp_path, patch):
    written(tmp_path / "data" / authors.FOLDER, "seed.csv", [(0, 100, 1), (1, 50, 2)])
    owned = replace(curves(), figure=replace(FIGURE, place="figure9"), is_free=False)
    patch.constant(authors, "CURVES", (curves(), owned))
    images, build = tmp_path / "images", tmp_path / "build"
    authors.write(tmp_path / "data", images, build)
    assert [path.name for path in images.iterdir()] == [curves().file]
    assert [path.name for path in build.iterdir()] == [owned.file]
    (images / owned.file).write_text("", "utf-8")
    (shown,) = authors.pictures(images)
    assert shown.file == curves().file
    assert "MIT License" in shown.source
    authors.write(tmp_path, images / "none", build)  # a machine without the files draws nothing
    assert not (images / "none").exists()


@pytest.fixture
def published(shared_data):
    folder = shared_data / authors.FOLDER
    if not folder.is_dir():
        pytest.skip(f"no results of the papers' authors at {folder}; they are not part of this project")
    return folder


def test_committed_drawings_are_those_of_the_published_results(published, tmp_path):
    authors.write(published.parent, tmp_path, tmp_path / "build")
    free = [curves.file for curves in authors.CURVES if curves.is_free]
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == sorted(free)
    for name in free:
        assert (tmp_path / name).read_bytes() == (page.DOCS / "images" / name).read_bytes(), name


def test_authors_figures_of_cells_end_their_curves(published):
    known = {(c.figure.paper, c.figure.place): c.lines(published) for c in authors.CURVES}
    named = [cell for cell in CELLS if cell.authors]
    assert len(named) > 20
    for cell in named:
        is_accuracy = cell.unit == "% accuracy"
        curves = known[cell.paper, f"{cell.place}c" if is_accuracy else cell.place]
        end = curves[cell.name.rpartition(", ")[2]][-1][1]
        assert cell.authors == (f"{100 * end:.1f}" if is_accuracy else f"{end:.2f}"), cell.identity


def test_lists_that_differ_in_form_are_told_apart_without_a_model(tmp_path):
    rng = np.random.default_rng(3)
    numbers = [str(number) for number in rng.choice(100_000, 200, replace=False)]
    for blank, least, most in (("", 30, 70), (" ", 90, 100)):
        for name, kind in (("train", [blank + number for number in numbers[:100]]), ("test", numbers[100:])):
            (tmp_path / f"{name}.txt").write_text("".join(f"{text}\n" for text in kind), "utf-8")
        found = candidates.told_by_texts(tmp_path)
        assert least <= found["accuracy_percent"] <= most
        assert found["begin_with_a_blank_percent"] == [100 * len(blank), 0]


@pytest.mark.slow
def test_recorded_figures_are_those_of_the_published_lists(published):
    written = json.loads(candidates.FILE.read_text("utf-8"))
    assert json.loads(json.dumps(candidates.of_all(published.parent))) == written
    assert written["digits"]["accuracy_percent"] > 90
