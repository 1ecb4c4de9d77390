#!/usr/bin/env python3
"""Writes tests/cases/judge.jsonl: what a judge that weighs verdicts must say, as transformers computes
the probabilities with the tiny checkpoints of tests/cases/families, in float32.

  python3 -m venv DIR && DIR/bin/pip install torch transformers==5.23.0
  DIR/bin/python tests/oracles/judge.py tests/cases/families > tests/cases/judge.jsonl

A line is { model, prompt = ids, verdicts = [[ids], ...], grades, logprobs, score }: the
log-probability of each verdict behind the prompt, which is the sum over its tokens, and the mean grade
weighted by the probabilities.
"""

import json
import os
import random
import sys

import torch
from transformers import AutoModelForCausalLM

LETTERS = 26
SETS = [([[24], [13]], [1, 0]),                             # one token each
        ([[0], [1], [2], [3], [4]], [1, 2, 3, 4, 5]),
        ([[24, 4, 18], [13, 14]], [1, 0]),                  # several
        ([[5], [6, 7], [8, 9, 10]], [-1, 0.25, 3])]


def logprob(model, prompt, verdict):
    ids = torch.tensor([prompt + verdict])
    with torch.no_grad():
        logp = model(ids).logits[0].float().log_softmax(-1)
    return sum(logp[len(prompt) - 1 + i, v].item() for i, v in enumerate(verdict))


def main(folder):
    rng = random.Random(5)
    for name in ("arcee", "mixtral", "nanochat"):
        model = AutoModelForCausalLM.from_pretrained(os.path.join(folder, name),
                                                     dtype=torch.float32).eval()
        for verdicts, grades in SETS:
            for length in (1, 3, 9, 20):
                prompt = [rng.randrange(LETTERS) for _ in range(length)]
                logprobs = [logprob(model, prompt, v) for v in verdicts]
                p = torch.tensor(logprobs, dtype=torch.float64).softmax(0)
                score = (p * torch.tensor(grades, dtype=torch.float64)).sum().item()
                print(json.dumps({"model": name, "prompt": prompt, "verdicts": verdicts,
                                  "grades": grades, "logprobs": logprobs, "score": score}))


main(sys.argv[1])
