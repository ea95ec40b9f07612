"""The claims of Selective DP that are judged here."""

from __future__ import annotations

from typing import Final

from benchmarks.reproduce.verdicts import Above, Below, Claim, Gap, Number, Ordering, claims_of

from .jft_claims import WIKITEXT_GAINS
from .selective import ATTACKED, BUT_SECRETS, CORPORA, NAMES, P

_claim: Final = claims_of(P)
NO_CREDIT: Final = (
    "a single private update costs more than that without credit for sampling, and none is due: a record's public "
    "tokens show which records a step read ([methods](methods.md#selective-dpsgd-takes-no-credit-for-sampling))"
)


def _t(name: str) -> str:
    return f"{P}/{name}"


CLAIMS: Final[tuple[Claim, ...]] = (
    _claim(
        "S-DPSGD has a better perplexity than DPSGD at the paper's σ and C, on both corpora",
        headline=True,
        rules=tuple(Ordering(_t(f"table2/{corpus}, S-DPSGD"), _t(f"table2/{corpus}, DPSGD")) for corpus in CORPORA),
        note="with small steps S-DPSGD is ahead on CustomerSim (184 a token at 1 and 0.1, DPSGD 464 at 3; seed 0). "
        "With step sizes chosen for each it is behind. By the paper's accounting ε is similar there; without credit "
        "for sampling S-DPSGD's is far larger",
    ),
    _claim(
        "S-DPSGD is better than DPSGD on words outside secrets (the paper scores all)",
        rules=tuple(
            Ordering(_t(f"table2/{corpus}, S-DPSGD{BUT_SECRETS}"), _t(f"table2/{corpus}, DPSGD{BUT_SECRETS}"))
            for corpus in CORPORA
        ),
        note="on CustomerSim DPSGD is ahead in each of three seeds, and the interval contains 0",
    ),
    _claim(
        "The method is for RNNs in general: with a GRU, too, S-DPSGD has a better perplexity than DPSGD (CustomerSim)",
        rules=(Ordering(_t("text/CustomerSim, S-DPSGD, a GRU"), _t("text/CustomerSim, DPSGD, a GRU")),),
        note="the paper ran only an LSTM. The order is that of the LSTM here",
    ),
    _claim(
        "No-DP has the best perplexity",
        rules=tuple(
            Ordering(_t(f"table2/{corpus}, No-DP"), _t(f"table2/{corpus}, {other}"))
            for corpus in CORPORA
            for other in ("DPSGD", "S-DPSGD")
        ),
    ),
    _claim(
        "CustomerSim, which comes from templates, is easier than WikiText-2 for every model",
        rules=tuple(
            Ordering(_t(f"table2/CustomerSim, {NAMES[m]}"), _t(f"table2/WikiText-2, {NAMES[m]}")) for m in ATTACKED
        ),
    ),
    _claim(
        "On CustomerSim S-DPSGD gains less over DPSGD than on WikiText-2, because more tokens are secret",
        rules=(
            Gap(
                (_t("table2/CustomerSim, S-DPSGD"), _t("table2/CustomerSim, DPSGD")),
                (_t("table2/WikiText-2, S-DPSGD"), _t("table2/WikiText-2, DPSGD")),
            ),
        ),
        note="S-DPSGD is behind on both corpora, and more so on CustomerSim. So the rule holds, but there is no gain "
        "to compare. Whether the number of secret tokens is the reason was not tested",
    ),
    _claim(
        "With less noise DPSGD has a better perplexity, at a far larger ε (σ = 0.25 for 0.5, WikiText-2)",
        note="less noise is worse in each of three seeds at the step size chosen for 0.5, and at 100, too (533 a "
        "token, and 436 with σ = 0.5; seed 0). We do not know why",
        rules=(Ordering(_t("figure3/DPSGD, σ = 0.25"), _t("figure3/DPSGD, σ = 0.5")),),
    ),
    _claim(
        "With less noise S-DPSGD has a better perplexity (σ = 0.1 for 0.5)",
        note="they differ by 0.03 nats a token, as much as the standard error of one loss, and the interval holds 0. "
        "Step sizes were chosen for σ = 0.5. Probably forty steps are too few to see the noise",
        rules=(Ordering(_t("figure7/S-DPSGD, σ = 0.1, C = 1e-3"), _t("figure7/S-DPSGD, σ = 0.5, C = 1e-3")),),
    ),
    _claim(
        "S-DPSGD spends ε = 4.91 at σ = 0.5 and 2.74 at σ = 0.7",
        headline=True,
        note=NO_CREDIT,
        rules=(
            Number(_t("table2/WikiText-2, ε of S-DPSGD, σ = 0.5")),
            Number(_t("table2/CustomerSim, ε of S-DPSGD, σ = 0.7")),
        ),
    ),
    _claim(
        "DPSGD spends ε = 4.89 on WikiText-2 and 2.51 on CustomerSim",
        rules=tuple(Number(_t(f"table2/{corpus}, ε of DPSGD")) for corpus in CORPORA),
    ),
    _claim(
        "Transformers: fine-tuning twice is better than the redacted model, and than DPSGD",
        headline=True,
        rules=(
            Ordering(_t("table3/S-DP, all entities"), _t("table3/Redacted, all entities")),
            Ordering(_t("table3/S-DP, contextual"), _t("table3/Redacted, contextual")),
            Ordering(_t("table3/S-DP, all entities"), _t("table3/DPSGD")),
            Ordering(_t("table3/S-DP, contextual"), _t("table3/DPSGD")),
        ),
        context=WIKITEXT_GAINS,
        note="only the contextual policy misses the last mark. It masks a third of the words, and the first phase "
        "makes them less likely than they were at the start (JFT has the same cells)",
    ),
    _claim(
        "Transformers: the contextual policy costs the redacted model more than entities do, and S-DP as well",
        rules=tuple(
            Ordering(_t(f"table3/{name}, all entities"), _t(f"table3/{name}, contextual"))
            for name in ("Redacted", "S-DP")
        ),
    ),
    _claim(
        "Without privacy an inserted canary can be found, by its exposure",
        rules=tuple(Above(_t(f"figure{number}/exposure, No-DP"), 9.0) for number in (3, 4)),
        note="the authors: 19.93 of 19.93 bits, among a million candidates; ours are ranked among 10,000 (13.3 bits)",
    ),
    _claim(
        "S-DPSGD exposes a canary less than No-DP does",
        rules=tuple(Ordering(_t(f"figure{n}/exposure, S-DPSGD"), _t(f"figure{n}/exposure, No-DP")) for n in (3, 4)),
    ),
    _claim(
        "Single digit sequences: membership is inferred best without privacy, and less well under S-DPSGD",
        rules=(Ordering(_t("figure3/digits, S-DPSGD"), _t("figure3/digits, No-DP")),),
        note="the lists that the authors published can be told apart without a model (Figure 3, last row)",
    ),
    _claim(
        "Single names: the attack fails, with little above 60 % on the surest of them (no privacy)",
        rules=(Below(_t("figure4/names, the surest, No-DP"), 65.0),),
        note="the authors' script keeps names by the truth, which alone makes a model that knows nothing right",
    ),
    _claim("Single names, all of them: at most 58 % (no privacy)", rules=(Below(_t("figure8/names, No-DP"), 58.5),)),
    _claim(
        "On the digits themselves S-DPSGD is better than anonymised text",
        rules=(Ordering(_t("figure5/digits, S-DPSGD"), _t("figure5/digits, anonymised")),),
    ),
    _claim(
        "A canary that the policy misses is exposed less by S-DPSGD than by anonymised text",
        rules=(
            Ordering(
                _t("figure6/exposure of a missed canary, S-DPSGD"),
                _t("figure6/exposure of a missed canary, anonymised"),
            ),
        ),
        note="the paper: where perplexity is middling; where it is low, both are exposed",
    ),
    _claim(
        "C = 1e-3 is better than 0.01 and than 5e-6",
        rules=(
            Ordering(_t("figure7/S-DPSGD, σ = 0.5, C = 1e-3"), _t("figure7/S-DPSGD, σ = 0.5, C = 0.01")),
            Ordering(_t("figure7/S-DPSGD, σ = 0.5, C = 1e-3"), _t("figure7/S-DPSGD, σ = 0.5, C = 5e-6")),
        ),
        note="all three have the step sizes that were chosen for 1e-3",
    ),
)
