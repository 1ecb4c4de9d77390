#!/usr/bin/env python3
"""Writes tests/cases/divergence/trl.jsonl: divergences of a student from a teacher as TRL computes
them, with their gradients by the student's logits.

  pip install trl==1.16.0      (with torch and transformers)
  python3 tests/oracles/divergence.py > tests/cases/divergence/trl.jsonl

A line is { beta, top_k, temperature, student, teacher, value, gradient }.  top_k 0 is
GKDTrainer.generalized_jsd_loss over the whole vocabulary; else the teacher's best top_k tokens and
one bucket for all others, as ServerDistillationTrainer has them with loss_add_tail, and
_jsd_divergence over these.  Everything is in double.
"""

import json

import torch
from trl.experimental.gkd.gkd_trainer import GKDTrainer
from trl.experimental.server_distillation import server_distillation_trainer as server

VOCABULARY = 24


def over_all(student, teacher, beta, temperature):
    return GKDTrainer.generalized_jsd_loss(
        student[None, None], teacher[None, None], beta=beta, temperature=temperature, reduction="sum"
    )


def over_best(student, teacher, beta, temperature, top_k):
    p = torch.log_softmax(student / temperature, -1)
    q = torch.log_softmax(teacher / temperature, -1)
    best = torch.topk(q, top_k).indices
    mask = torch.ones(top_k, dtype=torch.bool)
    p, all_of = server._add_tail_bucket(p[best], mask)
    q, _ = server._add_tail_bucket(q[best], mask)
    return server._jsd_divergence(p, q, beta, all_of).sum()


def main():
    torch.manual_seed(3)
    torch.set_default_dtype(torch.double)
    for beta in (0, 0.1, 0.5, 0.9, 1):
        for top_k in (0, 1, 5, 23):
            for temperature in (1, 0.7):
                student = (2 * torch.randn(VOCABULARY)).round(decimals=3).requires_grad_()
                teacher = (2 * torch.randn(VOCABULARY)).round(decimals=3)
                if top_k:
                    value = over_best(student, teacher, beta, temperature, top_k)
                else:
                    value = over_all(student, teacher, beta, temperature)
                (gradient,) = torch.autograd.grad(value, student)
                print(
                    json.dumps(
                        {
                            "beta": beta,
                            "top_k": top_k,
                            "temperature": temperature,
                            "student": student.tolist(),
                            "teacher": teacher.tolist(),
                            "value": value.item(),
                            "gradient": [round(x, 12) for x in gradient.tolist()],
                        }
                    )
                )


main()
