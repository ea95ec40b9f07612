"""The method, the task and the layer rule that the documentation shows train as they stand there."""

import tomllib
import warnings

import pytest
import torch
from support.evaluations import figures_of
from support.extending import blocks, write_entry_points, write_modules
from test_stage_train_methods import SMALL, corpus, read, run

from pipelines.accounting.claim_builder import Review
from pipelines.accounting.claims import build_claims
from pipelines.accounting.facts import CorpusFacts, parse_training
from pipelines.dp import attach, rules
from pipelines.dp.privacy import PrivacyEngine
from pipelines.errors import ConfigError
from pipelines.methods import registry as methods
from pipelines.methods.registry import rule_of
from pipelines.plugins import installed
from pipelines.settings.loading import load_settings
from pipelines.settings.train import TrainConfig
from pipelines.store.objects.code import CodeDigests
from pipelines.store.place.statcache import StatCache
from pipelines.training.trained import open_trained

SEES_ALL = CorpusFacts(dedup_stability=1, dedup_reason="none", has_conservative=True)


@pytest.fixture(autouse=True)
def forget():
    """What is found of other packages is remembered by name; these are gone after each test."""
    caches = (installed, rules.installed_rules, methods.method)
    yield
    for cache in caches:
        cache.cache_clear()


def settings(title):
    """The section's ``[train]``, small."""
    return {**SMALL, **tomllib.loads(blocks(title, "toml")[0])["train"]}


@pytest.mark.slow
def test_the_method_of_the_documentation(tmp_path, monkeypatch):
    write_modules("A method", tmp_path, monkeypatch)
    changes = settings("A method")
    name = changes.pop("method")
    ctx = run(tmp_path, corpus(tmp_path / "corpus"), name, **changes)
    events = read(ctx, "events.json")
    assert events["preconditions"] == {"planned_beforehand": True}
    assert len(read(ctx, "curves.json")["epochs"]) == 3 + SMALL["epochs"]
    assert (ctx.out.public_folder / "model/model.safetensors").exists()
    card = (ctx.out.public_folder / "model/README.md").read_text("utf-8")
    assert "AdamW on public text, and after that DP-AdamW on redacted private text" in " ".join(card.split())

    claims = {c["notion"]: c for c in build_claims(parse_training(events), SEES_ALL, Review.withheld(), ())["claims"]}
    assert set(claims) == {"dp_private_set", "confidentiality"}
    dp = claims["dp_private_set"]
    assert dp["is_guarantee"]
    assert dp["epsilon"] == pytest.approx(3.0, rel=1e-2)
    assert all(
        any("code of another package: warming:SPEC" in line for line in c["assumptions"]) for c in claims.values()
    )
    unmet = parse_training({**events, "preconditions": {}})
    refused = build_claims(unmet, SEES_ALL, Review.withheld(), ())["claims"]
    assert "planned before the first" in next(c for c in refused if c["notion"] == "confidentiality")["refused"]


def test_the_code_of_a_method_and_its_options_count(tmp_path, monkeypatch):
    write_modules("A method", tmp_path, monkeypatch)
    config = TrainConfig(**settings("A method"))
    assert config.keyed("train")["options"] == {"warming:SPEC": {"public_epochs": 3}}
    assert TrainConfig(method="warming:SPEC").keyed("train")["options"] == {"warming:SPEC": {"public_epochs": 2}}
    assert "options" not in TrainConfig().keyed("train")
    assert set(config.plugin_references()) == {"warming", "warming_steps"}
    assert TrainConfig().plugin_references() == ()

    def digest():
        return CodeDigests(StatCache(tmp_path / "cache.json")).of_others(config.plugin_references())

    before = digest()
    assert set(before) == {"warming.py", "warming_steps.py"}
    code = (tmp_path / "warming_steps.py").read_text("utf-8")
    (tmp_path / "warming_steps.py").write_text(code.replace("[private] *", "[private] * 2 *"), "utf-8")
    assert digest() != before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('method = "warming:NONE"', "method 'warming:NONE' cannot be imported"),
        ('method = "warming:WarmSettings"', "must be a pipelines.methods.spec.MethodSpec"),
        ('method = "warnig"', r"line 2: train.method: unknown method 'warnig'; .*known: anonymized, crt"),
        ('method = "drt"', "unknown method 'drt'; did you mean 'crt'"),
        ('task = "dialog"', "unknown task 'dialog'; did you mean 'dialogue'"),
        ('method = "warming:SPEC"\n[train.options."warming:SPEC"]\npublic_epoch = 1', "did you mean 'public_epochs'"),
        ('method = "warming:SPEC"\n[train.options."warming:SPEC"]\nmax_grad_norm = 1.0', "of the table itself"),
        ('[train.options."warming:SPEC"]\npublic_epochs = 1', "no method or task of another package of that name"),
        ("[train.options.crt]\nepochs = 1", "no method or task of another package of that name"),
    ],
)
def test_what_is_wrong_about_a_plug_in_is_said(tmp_path, monkeypatch, text, message):
    write_modules("A method", tmp_path, monkeypatch)
    (tmp_path / "reticent.toml").write_text(f"[train]\n{text}\n", "utf-8")
    with pytest.raises(ConfigError, match=message):
        load_settings(tmp_path / "reticent.toml", {})


def test_a_method_that_is_gone_claims_no_theorem():
    rule = rule_of("nowhere:SPEC", None)
    assert (rule.claims, rule.plugins) == (("dp",), ("nowhere:SPEC",))


@pytest.mark.slow
def test_the_task_of_the_documentation(tmp_path, monkeypatch):
    write_modules("A task", tmp_path, monkeypatch)
    changes = settings("A task")
    ctx = run(tmp_path, corpus(tmp_path / "corpus"), "dpsgd", **{**changes, "epochs": 12, "noise_multiplier": 0.1,
                                                                "target_epsilon": None})  # fmt: skip
    figures = figures_of(ctx)
    assert figures["task"] == "completing:SPEC"
    assert figures["perplexity"] < figures["perplexity_at_initialisation"] / 2
    assert "the first words" in (ctx.out.public_folder / "model/README.md").read_text("utf-8")
    assert set(TrainConfig(**changes).plugin_references()) == {"completing", "completing_examples"}
    with pytest.raises(ConfigError, match="task of another package"):
        open_trained(ctx.out.public_folder / "model")


def test_the_layer_rule_of_the_documentation(tmp_path, monkeypatch):
    write_modules("A layer rule", tmp_path, monkeypatch)
    from scaling import Scale

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), Scale(4), torch.nn.Linear(4, 1))
    assert attach.rule_for(model[1]) is None
    write_entry_points("A layer rule", tmp_path)
    for cache in (installed, rules.installed_rules):
        cache.cache_clear()
    x, y = torch.randn(64, 5, 3), torch.randn(64)
    engine = PrivacyEngine()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        before = model[1].weight.detach().clone()
        for inputs, wanted in loader:
            optimizer.backward((model(inputs).mean(dim=(1, 2)) - wanted).square())
            optimizer.step()
    assert not torch.equal(model[1].weight, before)
    assert attach.rule_for(model[1]) is not None
    assert any("scaling.Scale" in line for line in engine.assumptions)
    assert "scaling" in TrainConfig(model="someone/small").plugin_references()
