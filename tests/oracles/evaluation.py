#!/usr/bin/env python3
"""Writes tests/cases/evaluation.jsonl: what held-out measures and tests of pairs must give.

  pip install numpy scipy
  python3 tests/oracles/evaluation.py > tests/cases/evaluation.jsonl

pass@k comes from exact binomials; best@k from all choices of k samples, in fractions; maj@k from
the runs of k samples in a row; p-values from scipy.stats.binomtest (McNemar's exact test) and
scipy.stats.permutation_test; bootstrap intervals from scipy.stats.bootstrap.
"""

import json
import math
import random
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy import stats

rng = random.Random(39)


def pass_at(n, c, k):
    return float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))


def best_at(values, rewards, k):
    total, count = Fraction(0), 0
    for chosen in combinations(range(len(values)), k):
        highest = max(rewards[i] for i in chosen)
        winners = [values[i] for i in chosen if rewards[i] == highest]
        total += Fraction(sum(winners), len(winners))
        count += 1
    return float(total / count)


def tie_free_best_at(values, rewards, k):
    n = len(values)
    order = sorted(range(n), key=lambda i: rewards[i])
    weights = [Fraction(math.comb(i, k - 1), math.comb(n, k)) for i in range(n)]
    return float(sum(w * values[i] for w, i in zip(weights, order)))


def majority_at(values, answers, k):
    runs = []
    for first in range(0, len(values) - k + 1, k):
        part = range(first, first + k)
        votes = Counter(answers[i] for i in part if answers[i] is not None)
        most = max(votes.values(), default=0)
        winners = [a for a, v in votes.items() if v == most]
        gave = [[values[i] for i in part if answers[i] == a] for a in winners]
        runs.append(Fraction(sum(Fraction(sum(g), len(g)) for g in gave), len(winners))
                    if winners else Fraction(0))
    return float(sum(runs) / len(runs))


def emit(**row):
    print(json.dumps(row))


for n, c, k in [(1024, 0, 1024), (1024, 1, 1), (1024, 1, 512), (1024, 1, 1024), (1024, 3, 256),
                (1024, 100, 1), (1024, 100, 16), (1024, 1023, 1), (1024, 1024, 7), (4096, 2, 1024),
                (4096, 40, 128), (200, 3, 100), (10, 3, 5), (64, 1, 32)]:
    emit(measure="pass", n=n, c=c, k=k, value=pass_at(n, c, k))

for n, levels in [(5, 2), (6, 3), (8, 8), (9, 4), (10, 1)]:
    values = [rng.randint(0, 1) for _ in range(n)]
    rewards = [rng.randrange(levels) / 4 for _ in range(n)]
    for k in range(1, n + 1):
        emit(measure="best", values=values, rewards=rewards, k=k,
             value=best_at(values, rewards, k))
values = [rng.randint(0, 1) for _ in range(1024)]
rewards = rng.sample(range(10000), 1024)
for k in (1, 2, 64, 1000, 1024):
    emit(measure="best", values=values, rewards=rewards, k=k,
         value=tie_free_best_at(values, rewards, k))

for n, kinds in [(6, 2), (12, 3), (17, 4), (32, 9)]:
    answers = [rng.choice([None] + list(range(1, kinds))) for _ in range(n)]
    values = [int(a == 1) for a in answers]
    for k in range(1, n + 1):
        emit(measure="maj", values=values, answers=answers, k=k,
             value=majority_at(values, answers, k))

for higher, lower in [(0, 0), (1, 0), (5, 5), (9, 2), (0, 20), (130, 171), (600, 701), (2000, 1500)]:
    p = stats.binomtest(min(higher, lower), higher + lower).pvalue if higher + lower else 1.0
    emit(measure="mcnemar", higher=higher, lower=lower, p=p)


def gain(a, b, axis):
    return np.mean(b - a, axis=axis)


for n, exact in [(3, True), (8, True), (13, True), (40, False), (200, False)]:
    before = [round(rng.random(), 3) for _ in range(n)]
    after = [round(min(1.0, v + rng.uniform(-0.3, 0.45)), 3) for v in before]
    found = stats.permutation_test((np.array(before), np.array(after)), gain, vectorized=True,
                                   permutation_type="samples", n_resamples=np.inf if exact else
                                   200000, rng=np.random.default_rng(1))
    emit(measure="permutation", before=before, after=after, exact=exact, p=float(found.pvalue))

for n in (12, 100, 500):
    values = [round(rng.betavariate(0.6, 1.2), 3) for _ in range(n)]
    found = stats.bootstrap((np.array(values),), np.mean, n_resamples=100000, method="percentile",
                            rng=np.random.default_rng(2)).confidence_interval
    emit(measure="bootstrap", values=values, low=float(found.low), high=float(found.high),
         mean=float(np.mean(values)))
