#!/usr/bin/env python3
"""Writes tests/cases/schedules/transformers.jsonl: learning rates as transformers computes them.

  pip download --no-deps transformers==4.57.1
  unzip transformers-*.whl transformers/optimization.py
  python3 tests/oracles/schedules.py transformers/optimization.py \\
    > tests/cases/schedules/transformers.jsonl

A line is { schedule, total, warmup, options, factors }: the factors of the peak at the steps in
`steps`.  With warmup_ratio instead of warmup, the number of warm-up steps is that of
TrainingArguments.get_warmup_steps, which rounds up.  The functions of the factors need no torch, so
empty modules stand in for what the file imports.
"""

import importlib.util
import json
import math
import sys
import types


def load(path):
    def module(name, **names):
        made = types.ModuleType(name)
        made.__dict__.update(names)
        sys.modules[name] = made
        return made

    nothing = type("Nothing", (), {})
    module("torch", no_grad=lambda: lambda function: function)
    module("torch.optim", Optimizer=nothing)
    module("torch.optim.lr_scheduler", LambdaLR=nothing, ReduceLROnPlateau=nothing)
    module("package").__path__ = []
    module("package.trainer_pt_utils", LayerWiseDummyOptimizer=nothing,
           LayerWiseDummyScheduler=nothing)
    kinds = ("LINEAR COSINE COSINE_WITH_RESTARTS POLYNOMIAL CONSTANT CONSTANT_WITH_WARMUP "
             "INVERSE_SQRT REDUCE_ON_PLATEAU COSINE_WITH_MIN_LR COSINE_WARMUP_WITH_MIN_LR "
             "WARMUP_STABLE_DECAY").split()
    module("package.trainer_utils", SchedulerType=type("Type", (), {k: k for k in kinds}))
    module("package.utils", logging=types.SimpleNamespace(get_logger=lambda name: None))
    spec = importlib.util.spec_from_file_location("package.optimization", path)
    source = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = source
    spec.loader.exec_module(source)
    return source


# transformers defines the cosine's function twice under one name, the second time with a minimum.
CASES = [
    (name, total, warmup, options)
    for name, more in (
        ("constant_with_warmup", [{}]),
        ("linear", [{}]),
        ("cosine", [{"num_cycles": 0.5}, {"num_cycles": 1.0}]),
        ("cosine_with_restarts", [{"num_cycles": 1}, {"num_cycles": 3}]),
        ("polynomial", [{"lr_end": 0.1, "power": 2.0}]),
        ("inverse_sqrt", [{}]),
    )
    for options in more
    for total, warmup in ((20, 0), (20, 5), (21, 0.1), (30, 0.1), (7, 0.5), (12, 12), (10, 1.0))
    if not (name == "inverse_sqrt" and warmup == 0)  # transformers takes 10,000 steps then
    and not (name == "polynomial" and warmup in (12, 1.0))  # it divides by zero
]


def factor_of(source, name, total, warmup, options):
    about = {"num_warmup_steps": warmup, "num_training_steps": total}
    if name == "constant_with_warmup":
        function, about = source._get_constant_schedule_with_warmup_lr_lambda, {
            "num_warmup_steps": warmup}
    elif name == "linear":
        function = source._get_linear_schedule_with_warmup_lr_lambda
    elif name == "cosine":
        function = source._get_cosine_schedule_with_warmup_lr_lambda
    elif name == "cosine_with_restarts":
        function = source._get_cosine_with_hard_restarts_schedule_with_warmup_lr_lambda
    elif name == "polynomial":
        function = source._get_polynomial_decay_schedule_with_warmup_lr_lambda
        about["lr_init"] = 1.0
    else:
        function, about = source._get_inverse_sqrt_schedule_lr_lambda, {
            "num_warmup_steps": warmup, "timescale": warmup}
    return lambda step: function(step, **about, **options)


def main():
    source = load(sys.argv[1])
    for name, total, warmup, options in CASES:
        key = "warmup_ratio" if isinstance(warmup, float) else "warmup"
        steps = math.ceil(total * warmup) if key == "warmup_ratio" else warmup
        factor = factor_of(source, name, total, steps, options)
        print(json.dumps({"schedule": name, "total": total, key: warmup, "options": options,
                          "factors": [factor(step) for step in range(total + 3)]}))


main()
