"""What needs a GPU, without one: slices, resuming, models in parts, and every cell at toy size."""

import json
import subprocess
import sys

import pytest
from support import REPOSITORY

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import page, parts, results, slices
from benchmarks.gpu.cells import CELLS, Cell, Place

ABOUT = {"device": "NVIDIA H200", "kind": "cuda", "tiny": False, "commit": "0" * 12}
SAYS = "import json, sys; json.dump({'status': 'done', 'figures': {'passed': True}}, open(sys.argv[1], 'w'))"
CODE = {"quick": SAYS, "also quick": SAYS, "hangs": "import time; time.sleep(60)", "breaks": "raise SystemExit(3)"}
CODE["takes a fifth"] = f"import time; time.sleep(0.3); {SAYS}"


def cell(name, seconds=0.1, needs=()):
    return Cell(name=f"group/{name}", what="", function="none.none", seconds=seconds, needs=needs)


@pytest.fixture
def ran(tmp_path, patch):
    """Runs cells in a slice of so many seconds; gives what is left, and which were started."""
    patch.constant(slices, "MARGIN_SECONDS", 0.5)
    place = Place(device="cpu", tiny=True, data_dir=None, models={}, scratch=tmp_path)

    def run(cells, seconds, **options):
        asked = []

        def start(one, answer, given):
            asked.append(one.name)
            line = [sys.executable, "-S", "-c", CODE[one.name.partition("/")[2]], str(answer)]
            return subprocess.Popen(line, start_new_session=True, stderr=subprocess.DEVNULL)

        given = slices.Slice(seconds=seconds, out=tmp_path / "out", place=place, about=ABOUT, **options)
        return slices.run_slice(cells, cells, given, start), asked

    run.out = tmp_path / "out"
    return run


def test_a_second_call_goes_on_where_the_first_stopped(ran):
    cells = [cell("quick"), cell("also quick", seconds=1_000)]
    left, asked = ran(cells, 30)
    assert (left, asked) == (["group/also quick"], ["group/quick"])  # what does not fit is not begun
    for file in ran.out.glob("group.*.json"):  # only the summary came back
        file.unlink()
    assert results.restore(ran.out, cells) == 1
    left, asked = ran(cells, 30)
    assert (left, asked) == ([], ["group/also quick"])  # the first of a slice is begun, however long
    assert ran(cells, 30) == ([], [])
    summary = json.loads((ran.out / results.SUMMARY).read_text("utf-8"))
    assert summary["left"] == []
    assert [one["device"] for one in summary["results"]] == ["NVIDIA H200"] * 2


@pytest.mark.slow
def test_a_cell_that_outlasts_what_is_left_is_cut_and_one_that_outlasts_a_slice_has_failed(ran):
    left, _ = ran([cell("takes a fifth"), cell("hangs")], 2)
    assert left == ["group/hangs"]
    known = results.read(ran.out, cell("hangs"))
    assert known["status"] == "cut"
    left, _ = ran([cell("hangs")], 1.2)
    assert left == []
    assert "longer than a slice" in results.read(ran.out, cell("hangs"))["reason"]


def test_what_fails_or_lacks_a_package_stops_no_other(ran):
    cells = [cell("breaks"), cell("hangs", needs=("no_such_package",)), cell("quick")]
    left, asked = ran(cells, 30)
    assert left == ["group/hangs"]
    assert asked == ["group/breaks", "group/quick"]
    assert "no_such_package" in results.read(ran.out, cells[1])["reason"]
    assert ran(cells[:1], 30) == ([], [])
    assert ran(cells[:1], 30, again=True)[1] == ["group/breaks"]


def test_models_in_parts_are_joined_and_damage_is_seen(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "weights").write_bytes(bytes(range(256)) * 10_000)
    brought = tmp_path / "brought"
    parts.split(model, brought / "small", megabytes=1)
    assert len(list((brought / "small").glob("weights.part-*"))) == 3
    ready, waiting = parts.models_in(brought, tmp_path / "joined")
    assert waiting == {}
    assert (ready["small"] / "weights").read_bytes() == (model / "weights").read_bytes()
    last = brought / "small" / "weights.part-002"
    content = last.read_bytes()
    last.unlink()
    assert "weights.part-002" in parts.models_in(brought, tmp_path / "again")[1]["small"]
    last.write_bytes(b"x" + content[1:])
    assert "damaged" in parts.models_in(brought, tmp_path / "again")[1]["small"]
    index = json.loads((brought / "small" / parts.INDEX).read_text())
    (brought / "small" / parts.INDEX).write_text(json.dumps({"../weights": index["weights"]}))
    assert "outside" in parts.models_in(brought, tmp_path / "again")[1]["small"]
    with pytest.raises(parts.PartsError, match="50 MB"):
        parts.split(model, tmp_path / "large", megabytes=51)


def test_the_page_tells_of_gpus_alone():
    assert page.PAGE.read_text("utf-8") == page.rendered(
        {one.name: results.read(results.RESULTS, one) for one in CELLS}
    ), "python -m benchmarks.gpu --render"
    first = CELLS[0]
    done = {"status": "done", "seconds": 3.0, "figures": {"passed": True, "error": 1e-9}, **ABOUT}
    assert "1 of" in page.rendered({first.name: done})
    assert "error 1e-09" in page.rendered({first.name: done})
    assert "does not hold" in page.rendered({first.name: {**done, "figures": {"passed": False}}})
    for other in ({"kind": "cpu"}, {"tiny": True}):
        text = page.rendered({first.name: {**done, **other}})
        assert f"All of it {page.NEVER}" in text
        assert f"`{first.name.partition('/')[2]}`" in text


def test_cells_have_names_of_their_own_and_the_command_knows_them():
    assert len({one.name for one in CELLS}) == len(CELLS)
    assert [one.name for one in command.chosen(["processes"])] == [
        "processes/launched", "processes/gloo-on-one-device",
    ]  # fmt: skip
    with pytest.raises(SystemExit, match="no cell"):
        command.chosen(["exact"])


@pytest.mark.slow
def test_every_cell_runs_at_toy_size(tmp_path):
    from dp_contenders import SHAPES

    seen, cannot = set(), []
    for number, one in enumerate(CELLS):
        if (reason := slices.obstacle(one, "cpu")) is not None:
            cannot += [f"{one.name}: {reason}"] if "this processor" in reason else []
            continue
        toy = {**one.arguments, **({"shape": SHAPES[one.arguments["shape"]].kind} if "shape" in one.arguments else {})}
        toy.pop("block", None)
        if (key := (one.function, *sorted(toy.items()))) in seen:
            continue
        seen.add(key)
        scratch = tmp_path / str(number)
        scratch.mkdir()
        place = Place(device="cpu", tiny=True, data_dir=None, models={}, scratch=scratch)
        found = one.run(place)
        assert found.get("passed", True), (one.name, found)
        json.dumps(found)
        if "not_exact" in found:
            assert found["would_see_a_wrong_bound"] >= found["comparisons"] // 2
        if one.function == "steps.largest":
            assert found["largest_batch"] == 2
    if cannot:
        pytest.skip(f"every other cell ran; {'; '.join(cannot)}")


@pytest.mark.slow
def test_the_command_runs_a_cell_in_a_process_of_its_own(tmp_path):
    line = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--tiny", "--out", str(tmp_path)]
    subprocess.run([*line, "--only", "exactness/noise"], cwd=REPOSITORY, check=True, timeout=300)
    (known,) = [results.read(tmp_path, one) for one in CELLS if one.name == "exactness/noise"]
    assert known["status"] == "done"
    assert known["figures"]["passed"]
    assert {"device", "commit", "versions", "seconds", "peak_megabytes"} <= set(known)
    assert not page.counts(known)
