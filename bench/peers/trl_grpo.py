"""The GRPO run of bench/peers/trl_grpo.lua with TRL's GRPOTrainer: same weights, adapter, rows, rewards, options.

    trl_grpo.py DIR --replay RUN [--steps N]          feeds the completions of each step of our run RUN to TRL, and
                                                      compares reward, loss, KL, gradient norm and entropy
    trl_grpo.py DIR --steps N --seed S --out FILE     a run of its own, one line of JSON a step

DIR is written by trl_grpo.lua: base, adapter, rows.jsonl.  Prompts are rendered texts.  Where TRL's defaults are other
than ours (beta, loss_type, use_bias_correction_kl, learning rate and its schedule) the options below are set to ours.
"""
import argparse
import json
import os
import resource
import time

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
import torch
from datasets import Dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

PROMPTS, GROUP, NEW, TEMPERATURE = 2, 8, 32, 0.8


def fields(call, wanted):
    if not isinstance(call, (dict, list)):
        return 0.0
    call = call if isinstance(call, dict) else dict(enumerate(call))
    right = sum(name in call and call[name] == value and type(call[name]) is type(value) for name, value in wanted.items())
    return right / (len(wanted) + sum(name not in wanted for name in call))


def total_reward(completions, call, **_):
    rewards = []
    for text, wanted in zip(completions, call):
        wanted = json.loads(wanted)
        try:
            got = json.loads(text)
        except ValueError:
            got = None
        good = isinstance(got, (dict, list))
        tool = isinstance(got, dict) and got.get("tool") == wanted["tool"]
        rewards.append(0.25 * good + 0.25 * tool + 0.5 * fields(got, wanted))
    return rewards


class Recorder(TrainerCallback):
    """Keeps each step's metrics, and its seconds from one step's beginning to its end."""

    def __init__(self):
        self.steps, self.began = [], None

    def on_step_begin(self, *_, **__):
        self.began = time.perf_counter()

    def on_log(self, args, state, control, logs=None, **_):
        if logs and "reward" in logs:
            logs = {name: float(value) for name, value in logs.items()}
            self.steps.append({**logs, "seconds": time.perf_counter() - self.began, "cpu": sum(os.times()[:2])})


def read_lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def our_steps(run):
    """Our run's steps: metrics, and completions as prompt text, ids and reward, in the order of the step."""
    completions = read_lines(os.path.join(run, "logs", "rollouts.jsonl"))
    size = PROMPTS * GROUP
    steps = {1 + at // size: completions[at:at + size] for at in range(0, len(completions), size)}
    return read_lines(os.path.join(run, "metrics.jsonl")), steps


def trainer_of(o, rows, steps, recorder, rollout_func=None, shuffle=True):
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(o.dir, "base"))
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    base = AutoModelForCausalLM.from_pretrained(os.path.join(o.dir, "base"), dtype=torch.float32)
    model = PeftModel.from_pretrained(base, os.path.join(o.dir, "adapter"), is_trainable=True)
    config = GRPOConfig(
        output_dir=os.path.join(o.dir, "trl"), max_steps=steps, seed=o.seed, use_cpu=True, bf16=False,
        per_device_train_batch_size=PROMPTS * GROUP, num_generations=GROUP, max_completion_length=NEW,
        temperature=TEMPERATURE, top_p=1.0, top_k=0, beta=0.02, loss_type="grpo", epsilon=0.2, scale_rewards="group",
        use_bias_correction_kl=False, learning_rate=1e-4, lr_scheduler_type="constant", weight_decay=0.0,
        adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8, max_grad_norm=1.0, gradient_checkpointing=False,
        logging_steps=1, save_strategy="no", report_to=[], shuffle_dataset=shuffle, disable_tqdm=True,
        remove_unused_columns=False)
    return GRPOTrainer(model=model, reward_funcs=total_reward, args=config, processing_class=tokenizer,
                       train_dataset=Dataset.from_list(rows), callbacks=[recorder], rollout_func=rollout_func)


def replay(o):
    metrics, steps = our_steps(o.replay)
    numbers = sorted(steps)[:o.steps] if o.steps else sorted(steps)
    rows = []
    for n in numbers:
        for at in range(0, PROMPTS * GROUP, GROUP):
            c = steps[n][at]
            rows.append({"prompt": c["prompt"], "call": json.dumps(c["call"])})
    recorder, served = Recorder(), iter(numbers)

    def rollout(prompts, trainer):
        group = steps[next(served)]
        assert prompts == [c["prompt"] for c in group], "TRL took other prompts"
        encode = trainer.processing_class
        return {"prompt_ids": [encode(p, add_special_tokens=False)["input_ids"] for p in prompts],
                "completion_ids": [c["ids"] for c in group],
                "logprobs": [[0.0] * len(c["ids"]) for c in group]}

    trainer_of(o, rows, len(numbers), recorder, rollout, shuffle=False).train()
    worst = {}
    names = {"reward": "reward", "loss": "loss", "kl": "kl", "grad_norm": "grad_norm", "entropy": "entropy",
             "completions/mean_length": "completions/mean_length"}
    for n, theirs in zip(numbers, recorder.steps):
        ours = next(m for m in metrics if m["step"] == n)
        line = []
        for name, key in names.items():
            a, b = ours[key], theirs[name]
            d = abs(a - b) / max(abs(a), abs(b), 1e-8)
            worst[name] = max(worst.get(name, 0), d)
            line.append("%s %.7g %.7g (%.0e)" % (name, a, b, d))
        print("step %d: ours and TRL's  %s" % (n, "; ".join(line)), flush=True)
    print("largest relative difference: " + ", ".join("%s %.1e" % x for x in worst.items()))


def run(o):
    rows = [{"prompt": r["prompt"], "call": json.dumps(r["call"])} for r in read_lines(os.path.join(o.dir, "rows.jsonl"))]
    recorder = Recorder()
    trainer = trainer_of(o, rows, o.steps, recorder)
    trainer.train()
    with open(o.out, "w", encoding="utf-8") as f:
        for step in recorder.steps:
            f.write(json.dumps(step) + "\n")
    print("peak MiB: %d" % (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("--replay")
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", default="trl.jsonl")
    o = p.parse_args()
    torch.set_num_threads(int(os.environ.get("THREADS", 2)))
    replay(o) if o.replay else run(o)


main()
