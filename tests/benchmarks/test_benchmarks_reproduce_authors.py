"""Curves of results that authors published: read in the order of the training, thinned, and kept out of the project."""

from dataclasses import replace

import pytest

from benchmarks.reproduce import authors, page
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
    assert "MIT License" in shown.title
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
