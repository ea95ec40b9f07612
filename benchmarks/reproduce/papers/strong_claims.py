"""The claims of Li et al. that are judged here."""

from __future__ import annotations

from typing import Final

from benchmarks.reproduce.verdicts import Above, Alike, Below, Claim, Gap, Number, Ordering, claims_of

from .strong_generation import SIZES, P

_claim: Final = claims_of(P)

CHANCE: Final = 50.9
SMALLER, LARGER = SIZES


def _c(name: str) -> str:
    return f"{P}/{name}"


def _size(name: str, score: str) -> str:
    return _c(f"figure1/{name}, E2E, full, ε = 8, {score}")


def _smollm2(level: str) -> str:
    return _c(f"figure1/SmolLM2 (135 million weights), E2E, LoRA, {level}")


CLAIMS: Final[tuple[Claim, ...]] = (
    _claim(
        "Under privacy, text infilling is better than a head (SST-2, ε = 8)",
        headline=True,
        rules=(
            Ordering(_c("table1/SST-2, full, ε = 8"), _c("table1/SST-2, full + infilling, ε = 8")),
            Above(_c("table1/SST-2, full + infilling, ε = 8"), CHANCE),
        ),
        note=f"a model that always says the more frequent class has {CHANCE} %",
    ),
    _claim(
        "Text infilling is better than a head at ε = 3 (SST-2)",
        rules=(Ordering(_c("table1/SST-2, full, ε = 3"), _c("table1/SST-2, full + infilling, ε = 3")),),
    ),
    _claim(
        "ε = 3 by RDP is 2.41 by PLD, and 8 is 6.69 (SST-2)",
        headline=True,
        rules=tuple(Number(_c(f"table1/SST-2, ε = {e} by PLD")) for e in (3, 8)),
    ),
    _claim(
        "The ε by PLD of QNLI, QQP and MNLI is the paper's",
        rules=tuple(Number(_c(f"table1/{task}, ε = {e} by PLD")) for task in ("QNLI", "QQP", "MNLI") for e in (3, 8)),
    ),
    _claim(
        "The ε by the Gaussian limit is the paper's (SST-2)",
        rules=tuple(Number(_c(f"table1/SST-2, ε = {e} by the Gaussian limit")) for e in (3, 8)),
        note="four epochs for three come within 2 % of both, and pass the ε by PLD: no number from 3 to 6 gives both",
    ),
    _claim(
        "The ε by the Gaussian limit is the paper's (QNLI, QQP and MNLI)",
        rules=tuple(
            Number(_c(f"table1/{task}, ε = {e} by the Gaussian limit"))
            for task in ("QNLI", "QQP", "MNLI")
            for e in (3, 8)
        ),
        note="all six are within 1 % of the paper's",
    ),
    _claim(
        "The Gaussian limit understates ε",
        rules=tuple(
            Ordering(_c(f"table1/{task}, ε = {e} by the Gaussian limit"), _c(f"table1/{task}, ε = {e} by PLD"))
            for task in ("SST-2", "QNLI", "QQP", "MNLI")
            for e in (3, 8)
        ),
    ),
    _claim(
        "Privacy costs quality: at ε = 8 full fine-tuning is behind the same without noise (E2E)",
        rules=(Ordering(_c("table2/full, ε = 8, BLEU"), _c("table2/full, non-private, BLEU")),),
    ),
    _claim(
        "Private fine-tuning comes close to training without noise (BLEU within a tenth, E2E, ε = 8)",
        headline=True,
        rules=(Alike(_c("table2/full, ε = 8, BLEU"), _c("table2/full, non-private, BLEU"), 0.1),),
        note="probably too few steps: 20 noisy ones of a model that has read 472 articles, for some 410 of GPT-2 over "
        "seven times the rows. Twenty steps leave SST-2 at chance as well, and two hundred do not",
    ),
    _claim(
        "With LoRA, a model pre-trained on the web comes close to training without noise (SmolLM2, 1,200 rows, ε = 8)",
        rules=(Alike(_smollm2("ε = 8"), _smollm2("non-private"), 0.1),),
        note="10 steps with noise, 75 without. The small GPT-2 has BLEU 21 at ε = 8 and 57 without privacy "
        "(all weights, 6,000 rows)",
    ),
    _claim(
        "Privacy costs a model from random weights more than a pre-trained one (E2E, ε = 8)",
        rules=(
            Gap(
                (_c("table2/full, ε = 8, BLEU"), _c("table2/full, non-private, BLEU")),
                (_c("table2/retrain, ε = 8, BLEU"), _c("table2/retrain, non-private, BLEU")),
            ),
        ),
    ),
    _claim(
        "A pre-trained start is better than random weights under privacy (full against retrain, E2E, ε = 8)",
        headline=True,
        rules=(Ordering(_c("table2/retrain, ε = 8, BLEU"), _c("table2/full, ε = 8, BLEU")),),
        context=(
            Ordering(_c("table2/full, ε = 8, BLEU"), _c("table2/full, non-private, BLEU")),
            Ordering(_c("table2/retrain, non-private, BLEU"), _c("table2/full, non-private, BLEU")),
        ),
    ),
    _claim(
        "A pre-trained start is better by NIST, METEOR, ROUGE-L and CIDEr, too (E2E, ε = 8)",
        rules=tuple(
            Ordering(_c(f"table7/retrain, ε = 8, {score}"), _c(f"table7/full, ε = 8, {score}"))
            for score in ("NIST", "METEOR", "ROUGE-L", "CIDEr")
        ),
    ),
    _claim(
        "A pre-trained start is better at ε = 3 (E2E)",
        rules=(Ordering(_c("table2/retrain, ε = 3, BLEU"), _c("table2/full, ε = 3, BLEU")),),
    ),
    _claim(
        "Full fine-tuning is better than prefix and than the top two blocks at ε = 3 (E2E)",
        rules=tuple(
            Ordering(_c(f"table2/{name}, ε = 3, BLEU"), _c("table2/full, ε = 3, BLEU")) for name in ("prefix", "top2")
        ),
        note="one step size serves all methods, and with it prefix has hardly begun. BLEU does not tell full and the "
        "top two blocks apart. By the loss full is far ahead (2.50 and 3.22, one seed)",
    ),
    _claim(
        "LoRA is on par with full fine-tuning under privacy (E2E)",
        rules=tuple(
            Alike(_c(f"table2/LoRA, {eps}, BLEU"), _c(f"table2/full, {eps}, BLEU"), 0.1) for eps in ("ε = 3", "ε = 8")
        ),
        note="one step size serves all methods; this model probably needs a larger one for LoRA. Without privacy LoRA "
        "is behind, too (26.9 and 54.0, seed 0)",
    ),
    _claim(
        "Full fine-tuning is better than prefix and than the top two blocks at ε = 8 (E2E)",
        rules=tuple(
            Ordering(_c(f"table2/{name}, ε = 8, BLEU"), _c("table2/full, ε = 8, BLEU")) for name in ("prefix", "top2")
        ),
        note="after 20 steps prefix has hardly begun. BLEU does not tell the top two blocks from full fine-tuning. By "
        "the loss full is ahead, by 0.65 to 0.71 nats a token in each seed, of which up to 0.04 may come from other "
        "held-out rows",
    ),
    _claim(
        "At a fixed number of epochs a large batch with a high learning rate is best (E2E)",
        rules=tuple(
            Ordering(_c(f"figure2/batch {b}, learning rate {r}"), _c("figure2/batch 600, learning rate 2e-3"))
            for b, r in (("64", "2e-4"), ("64", "2e-3"), ("600", "2e-4"))
        ),
        note="two passes are 20 steps for the large batch and 188 for the small one. The paper takes ten passes, so "
        "20 steps are probably too few. The large batch has a loss of 2.50 with steps of 3e-3 (Table 2), and the "
        "small one 2.58 with 2e-3, the largest tried (one seed, standard error 0.05)",
    ),
    _claim(
        "On SST-2 a large batch with a high learning rate is best (ε = 8)",
        rules=tuple(
            Ordering(_c(f"text/SST-2, full, ε = 8, batch {b}, learning rate {r}"), _c("table1/SST-2, full, ε = 8"))
            for b, r in (("50", "5e-4"), ("50", "5e-3"), ("500", "5e-4"))
        ),
        note="three seeds do not tell the large batch (80.6 %) from batches of 50 with the same step (76.0 %)",
    ),
    _claim(
        "At a fixed number of steps the noise for each record falls as the batch grows",
        headline=True,
        rules=tuple(
            Ordering(_c(f"figure3/noise over batch {large}, ε = 3"), _c(f"figure3/noise over batch {small}, ε = 3"))
            for small, large in (("64", "256"), ("256", "1024"), ("1024", "4096"))
        ),
    ),
    _claim(
        "Private training takes almost the memory of training without privacy (within a tenth, batches of 16)",
        rules=tuple(Below(_c(f"figure5/memory, private over ordinary training, {n} tokens"), 1.1) for n in (100, 512)),
        note="against ordinary training with the memory-saving head of this engine the ratio at 512 tokens is larger "
        "(Figure 5). Why it is larger at 100 tokens was not examined",
    ),
    _claim(
        "Opacus takes three times the memory of ghost clipping",
        rules=(Above(_c("figure5/memory, Opacus over this engine, 512 tokens"), 2.5),),
        note="Opacus has had ghost clipping itself since 1.5, and is compared with that",
    ),
    _claim(
        "A larger pre-trained model is better under privacy (E2E, ε = 8)",
        headline=True,
        rules=(
            *(Ordering(_size(SMALLER, score), _size(LARGER, score)) for score in ("BLEU", "ROUGE-L")),
            Ordering(_size(LARGER, "perplexity"), _size(SMALLER, "perplexity")),
        ),
        note="by ROUGE-L the larger model is ahead in two of three seeds, and equal in one",
    ),
    _claim(
        "Of two models from Python packages the larger is better under privacy (E2E, LoRA, ε = 8)",
        rules=(
            Ordering(
                _smollm2("ε = 8"),
                _c("figure1/Gemma 3 (268 million weights), E2E, LoRA, ε = 8"),
            ),
        ),
        note="the paper compares sizes of one family. These two are of different families, were trained on different "
        "texts and may have seen E2E",
    ),
    _claim(
        "Small clipping norms are best (E2E)",
        rules=(
            Ordering(_c("figure4/C = 1"), _c("figure4/C = 0.1")),
            Ordering(_c("figure4/C = 10"), _c("figure4/C = 0.1")),
        ),
        note="after 20 steps BLEU is far from its end, and other scores have other orders. By the loss C = 10 is worse "
        "than 0.1 and 1 in each of three seeds (means 2.65, 2.54 and 2.54)",
    ),
    _claim(
        "The square-root rule underestimates the noise of small batches",
        rules=tuple(
            Number(_c(f"figure7/σ by the square-root rule over σ needed, batch {batch}"), at_most=1.0)
            for batch in ("16", "64", "256")
        ),
    ),
    _claim(
        "Better label words help private learning (SST-2, ε = 8)",
        rules=(Ordering(_c("figure8/table, chair, ε = 8"), _c("figure8/great, terrible, ε = 8")),),
        note="the paper calls words better that are right more often before training. Here both pairs are at chance "
        "then (50.6 and 50.9 %). After it 711 of 872 sentences are right with either (seed 0), and the losses, 0.99 "
        "and 0.92, differ less than seeds (0.92 to 1.02)",
    ),
)
