"""What people expect of a command line: completion, quiet, colours, exit codes, a schema for editors, a tour."""

import json
import tomllib
import webbrowser

import jsonschema
import pytest
from support import REPOSITORY
from typer.testing import CliRunner

import reticent
from flows import cli, verbosity
from flows.arguments import app
from flows.commands import demo
from flows.commands import open as opening
from flows.commands.init import schema_text, write_starter
from flows.commands.plan import last_run
from flows.docs.schema import settings_schema
from flows.running.progress import Console, _time_left
from flows.running.spec import open_store
from pipelines import errors
from pipelines.settings.loading import load_settings


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_the_shipped_schema_is_that_of_the_code():
    assert json.loads(schema_text()) == json.loads(json.dumps(settings_schema())), "run `make docs`"
    assert invoke("schema").output == schema_text()


def test_the_starter_names_its_schema_and_is_valid_by_it(tmp_path):
    path = write_starter(tmp_path, [], dialogues=3, seed=0)
    first = path.read_text("utf-8").splitlines()[0]
    assert first.startswith("#:schema ./")
    schema = json.loads((tmp_path / first.removeprefix("#:schema ./")).read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    document = tomllib.loads(path.read_text("utf-8"))
    validator.validate(document)
    for table, key, value in (("train", "epochs", "many"), ("train", "epoch", 3), ("dedup", "mode", "sometimes")):
        wrong = {**document, table: {**document[table], key: value}}
        assert list(validator.iter_errors(wrong)), (table, key)
    assert list(validator.iter_errors({**document, "trian": {}}))


def test_completion_is_offered(monkeypatch, capsys):
    assert "--install-completion" in invoke("--help").output
    monkeypatch.setenv("_RETICENT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "reticent rep")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit):
        cli._run()
    assert capsys.readouterr().out.split() == ["report"]


def test_the_version_is_that_of_the_installed_package():
    done = invoke("--version")
    assert (done.exit_code, done.output) == (0, f"reticent {reticent.__version__}\n")


def test_quiet_and_verbose_stand_anywhere():
    assert verbosity.hoisted(["run", "x.toml", "--quiet"]) == ["--quiet", "run", "x.toml"]
    assert verbosity.hoisted(["redact", "-v", "--", "-q"]) == ["-v", "redact", "--", "-q"]
    assert verbosity.hoisted([]) == []
    environ = {}
    verbosity.set_verbosity(environ, quiet=True, verbose=False)
    assert verbosity.is_quiet(environ)
    verbosity.set_verbosity(environ, quiet=False, verbose=True)
    assert verbosity.is_verbose(environ)
    assert environ["PREFECT_LOGGING_LEVEL"] == "INFO"
    with pytest.raises(errors.ConfigError, match="not both"):
        verbosity.set_verbosity(environ, quiet=True, verbose=True)


@pytest.mark.parametrize(("level", "lines"), [("quiet", 0), (None, 2), ("verbose", 4)])
def test_progress_is_as_loud_as_asked_for(monkeypatch, patch, capsys, level, lines):
    monkeypatch.delenv(verbosity.VARIABLE, raising=False)
    if level:
        monkeypatch.setenv(verbosity.VARIABLE, level)
    now = iter([100.0, 200.0, 201.0, 204.0])  # a hundred seconds to load models, say
    patch("flows.running.progress.time", "monotonic", lambda: next(now))
    console = Console()
    for done in (0, 0, 10, 40):
        console.progress("redact", done, 100, "")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines
    if level == "verbose":
        assert said[-1].endswith("40/100 (about 6 s left)")
    assert _time_left(100.0, 1, 100) == "(about 2.8 h left)"
    assert _time_left(100.0, 10, 90) == "(about 15 min left)"
    assert _time_left(1.0, 1, 100) == _time_left(10.0, 0, 100) == _time_left(10.0, 5, 0) == ""


CODES = {
    errors.ConfigError("x"): 2, errors.InputError("x"): 3, errors.PrivacyGateError("x"): 4, errors.StageError("x"): 5,
    errors.StoreError("x"): 5, errors.DamagedFileError("x"): 5, ValueError("secret"): 5, KeyboardInterrupt(): 130,
    SystemExit(3): 3, SystemExit("text"): 5,
}  # fmt: skip


@pytest.mark.parametrize("error", CODES, ids=lambda error: type(error).__name__)
def test_each_kind_of_error_has_its_exit_code(error, capsys):
    assert cli._code_of(error) == CODES[error]
    assert "secret" not in capsys.readouterr().err


def test_the_exit_codes_are_documented():
    page = (REPOSITORY / "docs/commands.md").read_text("utf-8")
    for code in {*CODES.values(), 0, 143}:
        assert f"| {code} |" in page


def test_wrong_usage_ends_with_2():
    assert invoke("run", "--no-such-option").exit_code == 2
    assert invoke("no-such-command").exit_code == 2


def test_open_shows_the_report(tmp_path, patch):
    report, seen = tmp_path / "report.html", []
    report.write_text("<p>")
    patch(opening, "last_run", lambda *_: {"outputs": {"report": str(report)}})
    patch(webbrowser, "open", lambda address: seen.append(address) or True)
    done = invoke("open", "reticent.toml", "--json")
    assert json.loads(done.output)["opened"] is True
    assert seen == [report.as_uri()]
    assert invoke("open", "--no-browser").output.strip() == str(report)
    assert len(seen) == 1
    missing = invoke("open", "--public")
    assert isinstance(missing.exception, errors.InputError)
    assert "public report" in str(missing.exception)
    (tmp_path / "key.json").write_text("{}")
    patch(opening, "is_encrypted", lambda _: True)
    assert "reticent export report" in str(invoke("open").exception)


def test_a_first_run_that_is_under_way_is_told(tmp_path):
    config = write_starter(tmp_path, [], dialogues=3, seed=0)
    roots = open_store(load_settings(config, {}))
    with pytest.raises(errors.ConfigError, match="start one with"):
        last_run(config, {})
    (roots.runs / "20260101T000000.000Z-abcdef").mkdir(parents=True)
    with pytest.raises(errors.ConfigError, match=r"reticent status .* says how the newest one is"):
        last_run(config, {})
    text = invoke("status", str(config)).output
    assert "newest run         20260101T000000.000Z-abcdef unfinished: still running, or killed" in text


def test_the_demo_is_a_tour(tmp_path, patch):
    runs = []
    patch(demo, "run_job", lambda config, **_: runs.append(config) or {"record": 1})
    patch(demo, "run_text", lambda record: "figures")
    shown = invoke("demo", str(tmp_path / "tour"), "--dialogues", "3")
    assert shown.exit_code == 0
    assert runs == [tmp_path / "tour" / "reticent.toml"]
    assert "reticent open" in shown.output
    assert "figures" in shown.output
    again = invoke("demo", str(tmp_path / "tour"))
    assert "continuing with it" in again.output
