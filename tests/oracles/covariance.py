#!/usr/bin/env python3
"""Writes tests/cases/covariance/cases.json: Clip-Cov, KL-Cov and dual clip by torch.

  python3 -m venv DIR && DIR/bin/pip install torch
  DIR/bin/python tests/oracles/covariance.py tests/cases/covariance

The formulas are those of the papers (2505.22617, sections 4.2 and 4.3; 1912.09729, equation 5), with
the gradient by torch's autograd in double.  What Clip-Cov draws at random cannot be compared, so
that its ratio is 1 here: every token within the bounds leaves the policy term.
"""

import json
import os
import sys

import torch

torch.manual_seed(1)
LENGTHS = [7, 3, 12, 5, 9]
N = sum(LENGTHS)


def numbers(scale):
    return (torch.randn(N, dtype=torch.float32) * scale).double()


def covariance(logp, advantage, mask):
    on = mask > 0
    return (logp - logp[on].mean()) * (advantage - advantage[on].mean())


def aggregate(term, mask):
    return (term * mask).sum() / mask.sum()


def clip_term(logp, old, advantage, clip, clip_high):
    ratio = torch.exp(logp - old)
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip_high) * advantage)


def clip_cov(logp, old, advantage, mask, o):
    cov = covariance(old, advantage, mask)
    chosen = (mask > 0) & (cov > o["low"]) & (cov < o["high"])
    term = clip_term(logp, old, advantage, 0.2, 0.28)
    return aggregate(torch.where(chosen, torch.zeros_like(term), term), mask), chosen


def kl_cov(logp, old, advantage, mask, o):
    on = torch.nonzero(mask > 0).flatten()
    cov = covariance(old, advantage, mask)[on]
    chosen = torch.zeros(N, dtype=torch.bool)
    chosen[on[torch.topk(cov, max(1, int(len(on) * o["ratio"]))).indices]] = True
    term = -torch.exp(logp - old) * advantage
    return aggregate(term + o["coef"] * (logp - old).abs() * chosen, mask), chosen


def dual_clip(logp, old, advantage, mask, o):
    term = clip_term(logp, old, advantage, 0.2, 0.28)
    bounded = torch.where(advantage < 0, torch.minimum(term, -o["c"] * advantage), term)
    return aggregate(bounded, mask), torch.zeros(N, dtype=torch.bool)


RULES = {"clip_cov": clip_cov, "kl_cov": kl_cov, "dual_clip": dual_clip}
SETTINGS = [
    ("clip_cov", {"low": 0.1, "high": 5.0}),
    ("clip_cov", {"low": 0.5, "high": 1.5}),
    ("kl_cov", {"ratio": 0.05, "coef": 1.0}),
    ("kl_cov", {"ratio": 0.3, "coef": 0.2}),
    ("kl_cov", {"ratio": 0.001, "coef": 2.0}),
    ("dual_clip", {"c": 1.4}),
    ("dual_clip", {"c": 3.0}),
]


def case(rule, o):
    old = -torch.rand(N, dtype=torch.float32).double() * 4 - 0.05
    logp = (old + numbers(0.7 if rule == "dual_clip" else 0.15)).requires_grad_()
    advantage = numbers(1.5)
    mask = (torch.rand(N) > 0.15).double()
    loss, chosen = RULES[rule](logp, old, advantage, mask, o)
    loss.backward()
    return {"rule": rule, "options": o, "lengths": LENGTHS, "logp": logp.tolist(),
            "old_logp": old.tolist(), "advantage": advantage.tolist(), "mask": mask.tolist(),
            "chosen": chosen.int().tolist(), "loss": loss.item(), "grad": logp.grad.tolist()}


def main():
    cases = [case(rule, o) for rule, o in SETTINGS for _ in range(4)]
    with open(os.path.join(sys.argv[1], "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


main()
