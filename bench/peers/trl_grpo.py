"""The GRPO run of bench/peers/trl_grpo.lua with TRL's GRPOTrainer: same weights, adapter, rows, reward, options.

    trl_grpo.py DIR [--full] --seed S --out FILE      a run of its own, one line of JSON a step
    trl_grpo.py DIR --replay RUN                      feeds the completions of each step of our run RUN to TRL, and
                                                      compares reward, loss, KL, gradient norm, entropy and clip ratio
    trl_grpo.py --score FILE                          compares the rewards in FILE, lines of JSON with text, letter and
                                                      reward as trl_grpo.lua writes them; needs Python alone

DIR is written by trl_grpo.lua: base, adapter, rows.jsonl, settings.json.  --steps N: other than the settings say.
THREADS=N: threads (2).  A replay takes learning rate, iterations and whether all weights are trained from the run.
Where TRL's defaults are other than ours (beta, loss_type, use_bias_correction_kl, learning rate and its schedule) the
options below are set to ours.
"""
import argparse
import json
import os
import re
import resource
import sys
import time

if "--score" not in sys.argv:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    import torch
    from datasets import Dataset
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

REPLAYED = ["reward", "loss", "kl", "grad_norm", "grad_norm in double", "entropy", "completions/mean_length",
            "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"]


def share(text, letter):
    """`share` of trl_grpo.lua: how many different words begin with the letter, over all words, at least four."""
    words = re.findall("[a-z]+", re.sub("[A-Z]+", lambda m: m.group().lower(), text))
    return len({w for w in words if w[0] == letter}) / max(len(words), 4)


def reward(completions, letter, **_):
    return [share(text, wanted) for text, wanted in zip(completions, letter)]


class Recorder:
    """Keeps and writes each step's metrics, with its seconds and processor seconds from its beginning to its end.

    exact: also grad_norm summed in double; torch sums the squares of a tensor in float32, and loses some of a big one.
    """

    def __init__(self, out=None, exact=False):
        self.steps, self.out, self.exact = [], out, exact

    def __getattr__(self, event):  # a TrainerCallback: nothing to do at all other events
        if not event.startswith("on_"):
            raise AttributeError(event)
        return lambda *_, **__: None

    def on_step_begin(self, *_, **__):
        self.began, self.spent = time.perf_counter(), sum(os.times()[:2])

    def on_pre_optimizer_step(self, *_, model=None, **__):  # gradients have been clipped
        if self.exact:
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            self.norm = sum(g.double().square().sum().item() for g in grads) ** 0.5

    def on_log(self, args, state, control, logs=None, **_):
        if logs and "grad_norm" in logs:
            logs = {name: float(value) for name, value in logs.items()}
            logs["seconds"] = time.perf_counter() - self.began
            logs["cpu_seconds"] = sum(os.times()[:2]) - self.spent
            logs["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            if self.exact:
                logs["grad_norm in double"] = self.norm * max(1, logs["grad_norm"] + 1e-6)
            self.steps.append(logs)
            if self.out:
                self.out.write(json.dumps(logs) + "\n")
                self.out.flush()


def read_lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def our_completions(o):
    """Of our run by step: completions as prompt, letter, ids, text and reward, in the order of the step."""
    completions = read_lines(os.path.join(o.replay, "logs", "rollouts.jsonl"))
    size = o.settings["prompts"] * o.settings["group"]
    return {1 + at // size: completions[at:at + size] for at in range(0, len(completions), size)}


def trainer_of(o, rows, steps, recorder, rollout_func=None, shuffle=True):
    s, base = o.settings, os.path.join(o.dir, "base")
    tokenizer = AutoTokenizer.from_pretrained(base)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    if not o.full:
        model = PeftModel.from_pretrained(model, os.path.join(o.dir, "adapter"), is_trainable=True)
    config = GRPOConfig(
        output_dir=os.path.join(o.dir, "trl"), max_steps=steps * s["iterations"], seed=o.seed, use_cpu=True, bf16=False,
        per_device_train_batch_size=s["prompts"] * s["group"], num_generations=s["group"],
        num_iterations=s["iterations"], max_completion_length=s["new_tokens"],
        temperature=s["temperature"], top_p=1.0, top_k=0, beta=s["kl"], loss_type="grpo",
        epsilon=s["clip"], scale_rewards="group", use_bias_correction_kl=False,
        learning_rate=s["lr"]["full" if o.full else "lora"], lr_scheduler_type="constant", weight_decay=0.0,
        adam_beta1=s["beta1"], adam_beta2=s["beta2"], adam_epsilon=s["eps"], max_grad_norm=s["max_grad_norm"],
        gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to=[], shuffle_dataset=shuffle,
        disable_tqdm=True, remove_unused_columns=False)
    return GRPOTrainer(model=model, reward_funcs=reward, args=config, processing_class=tokenizer,
                       train_dataset=Dataset.from_list(rows), callbacks=[recorder], rollout_func=rollout_func)


def replay(o):
    with open(os.path.join(o.replay, "config.json"), encoding="utf-8") as f:
        options = {name: option["value"] for name, option in json.load(f)["options"].items()}
    o.full = os.path.basename(options["model.path"]) == "base"
    o.settings.update(iterations=options["train.iterations"], lr=dict.fromkeys(("full", "lora"), options["train.lr"]))
    metrics, steps = read_lines(os.path.join(o.replay, "metrics.jsonl")), our_completions(o)
    numbers = sorted(steps)[:o.steps]
    rows = [{"prompt": c["prompt"], "letter": c["letter"]} for n in numbers for c in steps[n][::o.settings["group"]]]
    recorder, served = Recorder(exact=True), iter(numbers)

    def rollout(prompts, trainer):
        group = steps[next(served)]
        assert prompts == [c["prompt"] for c in group], "TRL took other prompts"
        return {"prompt_ids": trainer.processing_class(text=prompts)["input_ids"],
                "completion_ids": [c["ids"] for c in group],
                "logprobs": [[0.0] * len(c["ids"]) for c in group]}

    trainer_of(o, rows, len(numbers), recorder, rollout, shuffle=False).train()
    worst, iterations = {}, o.settings["iterations"]
    for at, n in enumerate(numbers):
        ours = next(m for m in metrics if m["step"] == n)
        logs = recorder.steps[at * iterations:(at + 1) * iterations]
        line = []
        for name in REPLAYED:  # TRL logs each iteration, we their mean; the reward is in the first log alone
            values = [x[name] for x in logs if name in x]
            a, b = ours[name.split()[0]], sum(values) / len(values)
            d = abs(a - b) / max(abs(a), abs(b), 1e-8)
            worst[name] = max(worst.get(name, 0), d)
            line.append("%s %.7g %.7g (%.0e)" % (name, a, b, d))
        print("step %d: ours and TRL's  %s" % (n, "; ".join(line)), flush=True)
    print("largest relative difference: " + ", ".join("%s %.1e" % x for x in worst.items()))


def score(path):
    """1 if a reward of the file is not what `share` gives; sums and quotients of small whole numbers are exact."""
    lines = read_lines(path)
    bad = [c for c in lines if c["reward"] != share(c["text"], c["letter"])]
    print("%d texts, %d with another reward%s" % (len(lines), len(bad), ": %r" % bad[0] if bad else ""))
    return 1 if bad or not lines else 0


def run(o):
    with open(o.out, "w", encoding="utf-8") as out:
        trainer_of(o, read_lines(os.path.join(o.dir, "rows.jsonl")), o.steps, Recorder(out)).train()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", nargs="?")
    p.add_argument("--full", action="store_true")
    p.add_argument("--replay", metavar="RUN")
    p.add_argument("--score", metavar="FILE")
    p.add_argument("--steps", type=int)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", default="trl.jsonl")
    o = p.parse_args()
    if o.score:
        return score(o.score)
    if not o.dir:
        p.error("DIR is missing")
    with open(os.path.join(o.dir, "settings.json"), encoding="utf-8") as f:
        o.settings = json.load(f)
    o.steps = o.steps or o.settings["steps"]
    torch.set_num_threads(int(os.environ.get("THREADS", 2)))
    return replay(o) if o.replay else run(o)


sys.exit(main())
