#!/usr/bin/env -S python3 -B
"""A GRPO step with LoRA in transformers on the CPU, by processor time: what bench/real_model.lua is compared with.

    bench/peers/lora_step.py MODEL [--prompt 64] [--group 4] [--new 16] [--steps 2] [--threads 1] [--dtype bfloat16]

MODEL: a directory in Hugging Face's layout, such as bench/make_checkpoint writes.  A step is sampling with
transformers' cache (the prompt once for each completion, as generate does it), the reference (the adapter switched off),
forward, backward and AdamW.  LoRA of rank 8 on all projections is added by hand, so that PEFT is not needed.
Prints JSON: the median of processor seconds of each phase, after a step that warms up (--steps 0: of that one).
"""
import argparse
import json
import statistics
import time

import torch
import transformers


class Lora(torch.nn.Module):
    on = True

    def __init__(self, base, rank=8, alpha=32):
        super().__init__()
        self.base, self.scale = base, alpha / rank
        self.a = torch.nn.Parameter(torch.randn(rank, base.in_features) / base.in_features ** 0.5)
        self.b = torch.nn.Parameter(torch.randn(base.out_features, rank) * 1e-3)

    def forward(self, x):
        y = self.base(x)
        if Lora.on:
            y = y + (self.scale * (x.float() @ self.a.T @ self.b.T)).to(y.dtype)
        return y


def add_lora(model):
    parameters = []
    for module in list(model.model.layers.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                adapted = Lora(child)
                setattr(module, name, adapted)
                parameters += [adapted.a, adapted.b]
    return parameters


def logps(model, ids, prompt):
    logits = model(ids, use_cache=False, logits_to_keep=ids.shape[1] - prompt + 1).logits[:, :-1].float()
    return torch.log_softmax(logits, -1).gather(-1, ids[:, prompt:, None])[..., 0]


def step(model, optimizer, o, seed):
    torch.manual_seed(seed)
    times, begin = {}, time.process_time()

    def phase(name):
        nonlocal begin
        now = time.process_time()
        times[name], begin = now - begin, now

    prompt = (torch.arange(o.prompt) * 37 % 250 + 3).expand(o.group, -1)
    with torch.no_grad():
        ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=o.new, min_new_tokens=o.new,
                             do_sample=True, top_k=0, pad_token_id=0)
        phase("generate")
        Lora.on = False
        reference = logps(model, ids, o.prompt)
        Lora.on = True
        phase("reference")
    logp = logps(model, ids, o.prompt)
    phase("forward")
    advantage = torch.randn(o.group, 1)
    delta = reference - logp
    loss = (-torch.exp(logp - logp.detach()) * advantage + 0.02 * (torch.exp(delta) - delta - 1)).mean()
    loss.backward()
    phase("backward")
    optimizer.step()
    optimizer.zero_grad()
    phase("adamw")
    return times


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("model")
    for name, value in (("prompt", 64), ("group", 4), ("new", 16), ("steps", 2), ("threads", 1)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--dtype", default="bfloat16")
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    transformers.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(o.model, dtype=getattr(torch, o.dtype))
    for q in model.parameters():
        q.requires_grad_(False)
    optimizer = torch.optim.AdamW(add_lora(model), lr=1e-5)
    runs = [step(model, optimizer, o, seed) for seed in range(o.steps + 1)][min(o.steps, 1):]
    result = {name: statistics.median(r[name] for r in runs) for name in runs[0]}
    result["step"] = statistics.median(sum(r.values()) for r in runs)
    print(json.dumps(result))


main()
