#!/usr/bin/env python3
"""Writes ext/preferences/tests/cases/losses.json: losses of preferences and their gradients by TRL.

  pip install trl==1.16.0 torch==2.15.0
  python3 ext/preferences/tests/preference_cases.py >ext/preferences/tests/cases/losses.json

The methods of TRL's trainers that compute a loss run on log-probabilities of a few tokens, which
stand where the model's result would: DPOTrainer._compute_loss, KTOTrainer._compute_loss,
CPOTrainer.cpo_loss, ORPOTrainer.odds_ratio_loss and RewardTrainer.compute_loss.
"""

import collections
import json
import sys
import types

import torch
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.kto_trainer import KTOTrainer
from trl.trainer.reward_trainer import RewardTrainer

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)

LENGTHS = [[3, 5], [4, 2], [1, 4], [6, 6]]  # tokens of the chosen and the rejected text of each pair
PROMPT, LONGEST, PAIRS = 2, 6, 4


def round_all(x):
    return [[[float(f"{v:.6g}") for v in text] for text in pair] for pair in x]


def random_texts(scale):
    return round_all([[(-scale * torch.rand(n) - 0.01).tolist() for n in pair] for pair in LENGTHS])


# Texts of a policy, of its reference, and log sum p^2 of each token.
POLICY, REFERENCE = random_texts(3), random_texts(3)
SQUARES = random_texts(2)

accelerator = types.SimpleNamespace(
    device=torch.device("cpu"),
    gather=lambda x: x,
    gather_for_metrics=lambda x: x,
    unwrap_model=lambda m: m,
)


def table(texts, dtype):
    """[2 * PAIRS, PROMPT + LONGEST - 1]: first the chosen texts, then the rejected ones."""
    out = torch.zeros(2 * PAIRS, PROMPT + LONGEST - 1, dtype=dtype)
    for i, pair in enumerate(texts):
        for side in (0, 1):
            out[i + side * PAIRS, PROMPT - 1 : PROMPT - 1 + len(pair[side])] = torch.tensor(pair[side], dtype=dtype)
    return out


def by_text(x):
    return [[x[i + side * PAIRS, PROMPT - 1 : PROMPT - 1 + n[side]].tolist() for side in (0, 1)] for i, n in enumerate(LENGTHS)]


def masks():
    mask = torch.zeros(2 * PAIRS, PROMPT + LONGEST, dtype=torch.long)
    for i, pair in enumerate(LENGTHS):
        for side in (0, 1):
            mask[i + side * PAIRS, PROMPT : PROMPT + pair[side]] = 1
    return mask


class Model(torch.nn.Module):
    """What a trainer calls: its result has log-probabilities of the texts, whatever is asked."""

    is_gradient_checkpointing = False

    def __init__(self, logps, squares):
        super().__init__()
        self.logps, self.squares = logps, squares

    def forward(self, **_):
        shape = self.logps.shape
        return types.SimpleNamespace(
            log_probs=self.logps,
            log_sum_sq_probs=self.squares,
            entropy=torch.zeros(shape),
            mean_logits=torch.zeros(shape),
            is_top1=torch.zeros(shape, dtype=torch.bool),
        )


def metrics_of(trainer):
    names = ("rewards/", "logps/", "kl")
    return {k: v[0] for k, v in trainer._metrics["train"].items() if k.startswith(names)}


def trainer_of(**fields):
    return types.SimpleNamespace(
        accelerator=accelerator,
        aux_loss_enabled=False,
        precompute_ref_logps=False,
        _metrics={"train": collections.defaultdict(list)},
        _total_train_tokens=0,
        _tp_size=1,
        args=types.SimpleNamespace(gradient_checkpointing_kwargs=None, discopop_tau=fields.get("discopop_tau", 0.05)),
        **fields,
    )


def dpo(**o):
    # TRL clamps the alpha divergence in float32
    dtype = torch.float32 if o.get("f_divergence_type") == "alpha_divergence" else torch.float64
    kinds = o["loss_type"] if isinstance(o["loss_type"], list) else [o["loss_type"]]
    leaf = table(POLICY, dtype).requires_grad_(True)
    model = Model(leaf * 1.0, table(SQUARES, dtype))
    trainer = trainer_of(
        model=model,
        ref_model=Model(table(REFERENCE, dtype), None),
        loss_types=kinds,
        loss_weights=o.get("loss_weights", [1.0] * len(kinds)),
        beta=o.get("beta", 0.1),
        ld_alpha=o.get("ld_alpha"),
        f_divergence_type=o.get("f_divergence_type", "reverse_kl"),
        f_alpha_divergence_coef=o.get("f_alpha_divergence_coef", 0.5),
        label_smoothing=o.get("label_smoothing", 0.0),
        use_weighting=o.get("use_weighting", False),
        discopop_tau=o.get("discopop_tau", 0.05),
    )
    mask = masks()
    inputs = {"input_ids": torch.ones_like(mask), "attention_mask": torch.ones_like(mask), "completion_mask": mask}
    loss = DPOTrainer._compute_loss(trainer, model, inputs, False)
    loss.backward()
    return {"options": o, "loss": loss.item(), "gradient": by_text(leaf.grad), "metrics": metrics_of(trainer)}


def kto(kl_sums, **o):
    """Every text is a row: the chosen ones are desirable."""
    leaf = table(POLICY, torch.float64).requires_grad_(True)
    model, reference = Model(leaf * 1.0, None), Model(table(REFERENCE, torch.float64), None)
    trainer = trainer_of(
        model=model,
        ref_model=reference,
        loss_type=o["loss_type"],
        calculate_KL=o["loss_type"] == "kto",
        beta=o.get("beta", 0.1),
        desirable_weight=o.get("desirable_weight", 1.0),
        undesirable_weight=o.get("undesirable_weight", 1.0),
    )
    trainer._compute_kl_logps = lambda m, batch: torch.tensor(kl_sums[0 if m is model else 1])
    mask = masks()
    label = torch.tensor([True] * PAIRS + [False] * PAIRS)
    batch = {
        "input_ids": torch.ones_like(mask),
        "attention_mask": torch.ones_like(mask),
        "completion_mask": mask,
        "label": label,
    }
    loss = KTOTrainer._compute_loss(trainer, model, batch, False)
    loss.backward()
    m = metrics_of(trainer)
    if o["loss_type"] == "kto":
        o["kl"] = m["kl"]
    del m["kl"]
    return {"options": o, "loss": loss.item(), "gradient": by_text(leaf.grad), "metrics": m, "rows": True}


def means():
    """Leaves, and the mean log-probability of each text: chosen, rejected."""
    leaf = table(POLICY, torch.float64).requires_grad_(True)
    n = masks().sum(1)
    mean = leaf.sum(1) / n
    return leaf, mean[:PAIRS], mean[PAIRS:]


def simpo(alpha=0.0, **o):
    leaf, chosen, rejected = means()
    trainer = types.SimpleNamespace(
        accelerator=accelerator,
        alpha=alpha,
        loss_type="simpo",
        beta=o.get("beta", 0.1),
        simpo_gamma=o.get("simpo_gamma", 0.5),
        label_smoothing=o.get("label_smoothing", 0.0),
    )
    losses, win, lose = CPOTrainer.cpo_loss(trainer, chosen, rejected)
    losses.mean().backward()
    metrics = {"logps/chosen": chosen.mean().item(), "logps/rejected": rejected.mean().item()}
    if alpha == 0:
        metrics["rewards/chosen"], metrics["rewards/rejected"] = win.mean().item(), lose.mean().item()
    else:  # AlphaPO is an f-divergence
        o.update(f_divergence_type="alpha_divergence", f_alpha_divergence_coef=1 - alpha)
    o["loss_type"] = "simpo"
    return {"options": o, "loss": losses.mean().item(), "gradient": by_text(leaf.grad), "metrics": metrics}


def orpo(**o):
    """The odds ratio is TRL's; the likelihood is that of the chosen texts alone."""
    leaf, chosen, rejected = means()
    trainer = types.SimpleNamespace(accelerator=accelerator, beta=o.get("beta", 0.1))
    ratio, win, lose, log_ratio, log_odds = ORPOTrainer.odds_ratio_loss(trainer, chosen, rejected)
    nll = -leaf[:PAIRS].sum() / masks()[:PAIRS].sum()
    loss = nll - ratio.mean()
    loss.backward()
    metrics = {
        "rewards/chosen": win.mean().item(),
        "rewards/rejected": lose.mean().item(),
        "logps/chosen": chosen.mean().item(),
        "nll_loss": nll.item(),
        "log_odds_ratio": log_ratio.item(),
        "log_odds_chosen": log_odds.item(),
    }
    o["loss_type"] = "orpo"
    return {"options": o, "loss": loss.item(), "gradient": by_text(leaf.grad), "metrics": metrics}


def reward(margin=None, coefficient=None):
    """Rewards of pairs: loss and gradient by each of them."""
    leaf = torch.tensor([0.5, -1.25, 2.0, 0.0, 0.25, 0.75, -0.5, 1.5]).requires_grad_(True)
    trainer = trainer_of()
    trainer.args.center_rewards_coefficient = coefficient
    model = types.SimpleNamespace(training=True)
    call = lambda **_: types.SimpleNamespace(logits=leaf[:, None] * 1.0)
    trainer.model = model
    inputs = {"attention_mask": torch.ones(2 * PAIRS, 3)}
    if margin is not None:
        inputs["margin"] = torch.tensor(margin)
    loss = RewardTrainer.compute_loss(trainer, call, inputs)
    loss.backward()
    return {
        "rewards": leaf.tolist(),
        "margin": margin,
        "center_rewards_coefficient": coefficient,
        "loss": loss.item(),
        "gradient": leaf.grad.tolist(),
        "metrics": {k: v[0] for k, v in trainer._metrics["train"].items() if k != "num_tokens"},
    }


NAMES = """sigmoid hinge ipo nca_pair robust bco_pair sppo_hard aot aot_unpaired apo_zero apo_down
discopop sft sigmoid_norm""".split()
DIVERGENT = ["sigmoid", "hinge", "ipo", "robust", "discopop", "sigmoid_norm"]

cases = [dpo(loss_type=name) for name in NAMES]
cases += [dpo(loss_type=name, beta=0.7) for name in NAMES]
cases += [dpo(loss_type=name, label_smoothing=0.2) for name in ("robust", "exo_pair", "aot", "aot_unpaired")]
cases += [dpo(loss_type="exo_pair", label_smoothing=1e-3, beta=0.5)]
for divergence in ("forward_kl", "js_divergence"):
    cases += [dpo(loss_type=name, f_divergence_type=divergence, beta=0.3) for name in DIVERGENT]
    cases += [dpo(loss_type="exo_pair", f_divergence_type=divergence, label_smoothing=0.1)]
for coefficient in (0.5, 1.0, 2.0):
    cases += [dpo(loss_type=name, f_divergence_type="alpha_divergence", f_alpha_divergence_coef=coefficient, beta=0.3) for name in DIVERGENT]
cases += [dpo(loss_type=name, ld_alpha=0.4) for name in NAMES]
cases += [dpo(loss_type="sigmoid", ld_alpha=0.0), dpo(loss_type="sigmoid", ld_alpha=1.0)]
# TRL weighs in place, which hinge's backward does not survive.
cases += [dpo(loss_type=name, use_weighting=True) for name in NAMES if name not in ("aot", "aot_unpaired", "sft", "hinge")]
cases += [dpo(loss_type="discopop", discopop_tau=0.5, beta=0.9)]
cases += [
    dpo(loss_type=["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.0]),
    dpo(loss_type=["sigmoid", "apo_zero"]),
    dpo(loss_type=["ipo", "aot", "sft"], loss_weights=[1.0, -0.5, 0.25], ld_alpha=0.3),
]
KL = [[-4.0, -3.5, -5.25, -6.0, -2.0, -8.0, -7.5, -1.0], [-4.5, -4.0, -5.5, -6.5, -2.25, -8.5, -7.0, -1.5]]
cases += [kto(KL, loss_type="kto"), kto(KL[::-1], loss_type="kto", beta=0.5)]
cases += [kto(KL, loss_type="kto", beta=0.3, desirable_weight=1.5, undesirable_weight=0.5)]
cases += [kto(KL, loss_type="apo_zero_unpaired", beta=0.4, desirable_weight=0.75)]
cases += [simpo(), simpo(beta=2.0, simpo_gamma=1.0), simpo(beta=2.0, label_smoothing=0.1)]
cases += [simpo(alpha=0.25, beta=2.0), simpo(alpha=-0.5, beta=1.0)]
cases += [orpo(), orpo(beta=1.0)]


def rounded(x):
    if isinstance(x, float):
        return float(f"{x:.12g}")
    if isinstance(x, list):
        return [rounded(v) for v in x]
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    return x


rewards = [reward(), reward(coefficient=0.01), reward(margin=[0.5, 1.0, 0.0, -0.25]), reward([1.0, 0.0, 2.0, 0.5], 0.1)]
out = {"policy": POLICY, "reference": REFERENCE, "squares": SQUARES, "cases": rounded(cases), "rewards": rounded(rewards)}
json.dump(out, sys.stdout, indent=None, separators=(",", ":"))
print()
