#!/usr/bin/env python3
"""PyTorch on the workloads of `grpo bench`: one GRPO step by phase, as JSON.

    torch_grpo.py --workload W2 [--dtype f32|bf16] [--setting best] [--onednn] [--compile] [--runs 3] [--threads N]

The step is the one of the usual trainers: the prompt runs once for each completion in reference, forward and
backward.  Everything else is given to the rival: the prompt is prefilled once, the cache is allocated once, the
output layer runs on completion rows only, nothing but matrix products and their glue is executed, and --setting
picks the environment that PyTorch is fastest in (it is set before the interpreter starts torch, by exec).  Attention
over whole sequences is scaled_dot_product_attention, where torch has it.  --onednn: float32 products with weights go
through oneDNN instead of MKL, which does not use AVX-512 on CPUs of AMD; no option of torch does this, so no trainer
has it.  --compile: the layers of reference, forward and backward go through torch.compile; generation does not,
because its lengths change at every token.

bf16: weights, activations and products in bfloat16; norms, softmax, losses, master weights, adapters' masters and
optimizer in float32.
"""
import argparse
import json
import math
import os
import resource
import statistics
import sys
import time

WORKLOADS = {
    "W1": dict(kind="gpt2", vocab=65, hidden=384, layers=6, heads=6, kv=6, ffn=1536, positions=256,
               prompts=32, group=4, prompt=1, new=70, rank=0, sft=(32, 128)),
    "W2": dict(kind="llama", vocab=256, hidden=256, layers=4, heads=8, kv=4, ffn=688,
               prompts=8, group=8, prompt=96, new=96, rank=0),
    "W3": dict(kind="llama", vocab=49152, hidden=576, layers=30, heads=9, kv=3, ffn=1536,
               prompts=2, group=8, prompt=128, new=64, rank=8),
    "W4": dict(kind="llama", vocab=151936, hidden=896, layers=24, heads=14, kv=2, ffn=4864, qkv_bias=True,
               prompts=1, group=8, prompt=160, new=32, rank=8),
    "smoke": dict(kind="llama", vocab=32, hidden=32, layers=2, heads=2, kv=1, ffn=64,
                  prompts=2, group=3, prompt=5, new=6, rank=0, sft=(2, 8)),
}

# ---- the environment ---------------------------------------------------------------------------------------


def has_avx512():
    try:
        return "avx512f" in open("/proc/cpuinfo").read()
    except OSError:
        return False


def environment(setting, openblas):
    """default: as found.  clean: nothing chooses kernels for OpenBLAS.  tuned: ATen's AVX-512 kernels, and no spinning
    in OpenMP.  best: tuned, and big tensors stay in the heap, on huge pages.  openblas: a directory with a libblas.so.3
    to prefer (OpenMP instead of threads of its own), for a torch that uses OpenBLAS."""
    env = dict(os.environ, GRPO_PEER_SETTING=setting)
    if setting != "default":
        env.pop("OPENBLAS_CORETYPE", None)
        env.pop("OPENBLAS_L2_SIZE", None)
    if setting in ("tuned", "best"):
        env["GOMP_SPINCOUNT"] = "0"
        if has_avx512():
            env["ATEN_CPU_CAPABILITY"] = "avx512"
    if setting == "best":
        env["GLIBC_TUNABLES"] = ("glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=68719476736:"
                                 "glibc.malloc.top_pad=268435456:glibc.malloc.hugetlb=1")
    if openblas:
        env["LD_LIBRARY_PATH"] = openblas + os.pathsep + env.get("LD_LIBRARY_PATH", "")
    return env


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--workload", required=True, choices=sorted(WORKLOADS))
    p.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    p.add_argument("--setting", default="best", choices=["default", "clean", "tuned", "best"])
    p.add_argument("--openblas", default=None)
    p.add_argument("--onednn", action="store_true")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--verify", action="store_true", help="cached generation against the full forward; no times")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return p.parse_args()


ARGS = arguments()
if os.environ.get("GRPO_PEER_SETTING") != ARGS.setting:
    os.execve(sys.executable, [sys.executable] + sys.argv, environment(ARGS.setting, ARGS.openblas))

import torch  # noqa: E402: after the environment
import torch.nn.functional as F  # noqa: E402

# ---- products ------------------------------------------------------------------------------------------------


def onednn(x, w):
    """x w^T, x and w of two dimensions."""
    return torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")


class Product(torch.autograd.Function):
    """x [..., k] times the transpose of w [n, k] through oneDNN, and its gradients."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return onednn(x.reshape(-1, x.shape[-1]), w).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, g):
        (x, w), g2 = ctx.saved_tensors, g.reshape(-1, g.shape[-1])
        dx = onednn(g2, w.t()).view(x.shape) if ctx.needs_input_grad[0] else None
        dw = onednn(g2.t(), x.reshape(-1, x.shape[-1]).t()) if ctx.needs_input_grad[1] else None
        return dx, dw


def linear(x, w, b=None):
    if not ARGS.onednn or x.dtype != torch.float32:
        return F.linear(x, w, b)
    y = Product.apply(x, w)
    return y if b is None else y + b


# ---- the model -----------------------------------------------------------------------------------------------


class Model:
    """Weights by name; a frozen base in `dtype`, or all of them trained."""

    def __init__(self, w, dtype):
        self.w, self.dtype = w, dtype
        self.head_dim = w["hidden"] // w["heads"]
        self.masters, self.copies = [], []
        self.train_base = w["rank"] == 0
        q, kv, h, f = w["hidden"], w["kv"] * self.head_dim, w["hidden"], w["ffn"]
        gpt2 = w["kind"] == "gpt2"
        self.embed = self.make(w["vocab"], h)
        self.position = self.make(w["positions"], h) if gpt2 else None
        self.layers = []
        for _ in range(w["layers"]):
            l = {"norm1": self.norm(h), "norm2": self.norm(h)}
            if gpt2:
                shapes = dict(qkv=(3 * h, h), o=(h, h), up=(f, h), down=(h, f))
            else:
                shapes = dict(q=(q, h), k=(kv, h), v=(kv, h), o=(h, q), gate=(f, h), up=(f, h), down=(h, f))
            for name, shape in shapes.items():
                bias = gpt2 or (name in "qkv" and w.get("qkv_bias"))
                l[name] = (self.make(*shape), self.make(shape[0]) if bias else None, self.adapter(*shape))
            self.layers.append(l)
        self.final = self.norm(h)
        self.cos, self.sin = (None, None) if gpt2 else self.rotary(w["prompt"] + w["new"])
        self.optimizer = torch.optim.AdamW(self.masters, lr=1e-6, weight_decay=0.0)
        self.whole = torch.compile(self.layer, dynamic=False) if ARGS.compile else self.layer

    def parameter(self, x, trained):
        """In bf16 the optimizer works on a float32 master, the model on a copy."""
        if not trained:
            return x.to(self.dtype)
        if self.dtype == torch.float32:
            self.masters.append(x.requires_grad_())
            return x
        copy = x.to(self.dtype).requires_grad_()
        self.masters.append(x)
        self.copies.append((x, copy))
        return copy

    def make(self, *shape):
        return self.parameter(torch.randn(*shape) * (0.02 if len(shape) > 1 else 0.0), self.train_base)

    def norm(self, n):
        ones = self.parameter(torch.ones(n), self.train_base)
        return ones, self.parameter(torch.zeros(n), self.train_base) if self.w["kind"] == "gpt2" else None

    def adapter(self, n, k):
        rank = self.w["rank"]
        if not rank:
            return None
        a = torch.empty(rank, k).uniform_(-1 / math.sqrt(k), 1 / math.sqrt(k))
        return self.parameter(a, True), self.parameter(torch.zeros(n, rank), True)

    def rotary(self, n):
        inverse = 10000.0 ** (-torch.arange(0, self.head_dim, 2).float() / self.head_dim)
        angle = torch.outer(torch.arange(n).float(), inverse)
        angle = torch.cat((angle, angle), -1)
        return angle.cos().to(self.dtype), angle.sin().to(self.dtype)

    def update(self, clip=1.0):
        for master, copy in self.copies:
            master.grad = copy.grad.float()
            copy.grad = None
        torch.nn.utils.clip_grad_norm_(self.masters, clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            for master, copy in self.copies:
                copy.copy_(master)

    # ---- forward ------------------------------------------------------------------------------------------

    def linear(self, x, weight, adapters):
        w, b, lora = weight
        y = linear(x, w, b)
        if lora is not None and adapters:
            y = y + linear(linear(x, lora[0]), lora[1]) * 2.0
        return y

    def normed(self, x, norm):
        w, b = norm
        if b is not None:
            return F.layer_norm(x, (x.shape[-1],), w, b)
        x32 = x.float()
        return (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * w

    def rotate(self, x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def attend(self, q, k, v, causal):
        """q [b, heads, n, d] against k, v [b, kv, t, d]; causal: n = t, of whole sequences from their first token."""
        b, heads, n, d = q.shape
        if causal and hasattr(F, "scaled_dot_product_attention"):
            share = heads // k.shape[1]
            k, v = (k, v) if share == 1 else (x.repeat_interleave(share, 1) for x in (k, v))
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        q = q.reshape(b, k.shape[1], -1, d)  # grouped queries need no copies of keys
        s = torch.matmul(q, k.transpose(-1, -2)) * (1 / math.sqrt(d))
        if causal:
            mask = torch.full((n, n), float("-inf"), dtype=s.dtype).triu_(1)
            s = (s.view(b, -1, n, n) + mask).view(s.shape)
        return torch.matmul(torch.softmax(s, -1), v).view(b, heads, n, d)

    def qkv(self, l, x, cos, sin, adapters):
        w, (b, n, _) = self.w, x.shape
        if w["kind"] == "gpt2":
            q, k, v = self.linear(x, l["qkv"], adapters).split(w["hidden"], -1)
        else:
            q, k, v = (self.linear(x, l[name], adapters) for name in "qkv")
        q, k, v = (y.view(b, n, -1, self.head_dim).transpose(1, 2) for y in (q, k, v))
        if w["kind"] != "gpt2":
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        return q, k, v

    def layer(self, l, x, cos, sin, adapters, at=0, cache=None):
        b, n, _ = x.shape
        q, k, v = self.qkv(l, self.normed(x, l["norm1"]), cos, sin, adapters)
        if cache is not None:
            cache[0][:, :, at:at + n], cache[1][:, :, at:at + n] = k, v
            k, v = cache[0][:, :, :at + n], cache[1][:, :, :at + n]
        o = self.attend(q, k, v, n > 1).transpose(1, 2).reshape(b, n, -1)
        x = x + self.linear(o, l["o"], adapters)
        h = self.normed(x, l["norm2"])
        up = self.linear(h, l["up"], adapters)
        if self.w["kind"] == "gpt2":
            act = F.gelu(up, approximate="tanh")
        else:
            act = F.silu(self.linear(h, l["gate"], adapters)) * up
        return x + self.linear(act, l["down"], adapters)

    def hidden(self, ids, at=0, cache=None, adapters=True):
        n = ids.shape[1]
        x = F.embedding(ids, self.embed)
        if self.position is not None:
            x = x + self.position[at:at + n]
        cos, sin = (None, None) if self.cos is None else (self.cos[at:at + n], self.sin[at:at + n])
        for i, l in enumerate(self.layers):
            if cache is None:
                x = self.whole(l, x, cos, sin, adapters)
            else:
                x = self.layer(l, x, cos, sin, adapters, at, cache[i])
        return self.normed(x, self.final)

    def logp(self, ids, prompt, adapters=True):
        """Log-probabilities of the tokens after the first `prompt`."""
        h = self.hidden(ids[:, :-1], adapters=adapters)[:, prompt - 1:]
        logits = linear(h, self.embed).float()
        return torch.log_softmax(logits, -1).gather(-1, ids[:, prompt:, None]).squeeze(-1)

    @torch.no_grad()
    def generate(self, prompts, group, new, cache, record=None):
        """prompts [p, n], each prefilled once; cache: buffers for p * group sequences; record: a list for the
        log-probabilities of what was drawn."""
        p, n = prompts.shape
        small = [[c[:p, :, :n] for c in layer] for layer in cache["prompt"]]
        last = self.hidden(prompts, 0, small)[:, -1]
        full = cache["all"]
        for layer, kept in zip(full, small):
            for c, s in zip(layer, kept):
                c[:, :, :n] = s.repeat_interleave(group, 0)
        logits = linear(last, self.embed).float().repeat_interleave(group, 0)
        ids = [prompts.repeat_interleave(group, 0)]
        for t in range(new):
            ids.append(torch.multinomial(torch.softmax(logits, -1), 1))
            if record is not None:
                record.append(torch.log_softmax(logits, -1).gather(-1, ids[-1]))
            if t + 1 < new:
                h = self.hidden(ids[-1], n + t, full)[:, -1]
                logits = linear(h, self.embed).float()
        return torch.cat(ids, 1)

    def cache(self, sequences):
        w = self.w
        shape = (sequences, w["kv"], w["prompt"] + w["new"], self.head_dim)
        return [[torch.zeros(shape, dtype=self.dtype) for _ in range(2)] for _ in range(w["layers"])]


# ---- a step -------------------------------------------------------------------------------------------------------


def grpo_loss(logp, old, ref, advantage, beta=0.02, clip=0.2):
    ratio = (logp - old).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    d = ref - logp
    return -(gain - beta * (d.exp() - d - 1)).mean()


def step(model, reference, cache, prompts, seconds):
    w, clock = model.w, time.perf_counter
    at = {}
    t = clock()
    ids = model.generate(prompts, w["group"], w["new"], cache)
    at["generate"] = clock() - t
    t = clock()
    with torch.no_grad():
        ref = reference.logp(ids, w["prompt"], adapters=False)
    at["reference"] = clock() - t
    t = clock()
    reward = (ids[:, w["prompt"]:] % 2).float().mean(1).view(-1, w["group"])
    advantage = ((reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-4)).view(-1, 1)
    at["reward"] = clock() - t
    t = clock()
    logp = model.logp(ids, w["prompt"])
    loss = grpo_loss(logp, logp.detach(), ref, advantage)
    at["forward"] = clock() - t
    t = clock()
    loss.backward()
    at["backward"] = clock() - t
    t = clock()
    model.update()
    at["optimizer"] = clock() - t
    at["step"] = sum(at.values())
    if seconds is not None:
        seconds.append(at)


def sft_step(model):
    rows, tokens = model.w["sft"]
    ids = torch.randint(0, model.w["vocab"], (rows, tokens + 1))
    started = time.perf_counter()
    (-model.logp(ids, 1).mean()).backward()
    model.update()
    return time.perf_counter() - started


def verify(model, cache, prompts):
    """What sampling saw is what training sees, and every trained tensor gets a gradient."""
    record = []
    ids = model.generate(prompts, model.w["group"], model.w["new"], cache, record)
    logp = model.logp(ids, model.w["prompt"])
    logp.sum().backward()
    trained = [c for _, c in model.copies] or model.masters
    return {"difference": (torch.cat(record, 1) - logp).abs().max().item(),
            "without_gradient": sum(p.grad is None for p in trained)}


def main():
    w = WORKLOADS[ARGS.workload]
    torch.set_num_threads(ARGS.threads)
    torch.manual_seed(1)
    model = Model(w, torch.float32 if ARGS.dtype == "f32" else torch.bfloat16)
    reference = Model(w, model.dtype) if model.train_base else model
    if reference is not model:  # a frozen copy has no optimizer and no masters
        reference.masters, reference.copies, reference.optimizer = [], [], None
    cache = {"prompt": model.cache(w["prompts"]), "all": model.cache(w["prompts"] * w["group"])}
    prompts = torch.randint(0, w["vocab"], (w["prompts"], w["prompt"]))
    if ARGS.verify:
        print(json.dumps(verify(model, cache, prompts)))
        return
    seconds, cores = [], []
    step(model, reference, cache, prompts, None)
    for _ in range(ARGS.runs):
        before = time.process_time()
        step(model, reference, cache, prompts, seconds)
        cores.append((time.process_time() - before) / ARGS.threads)
    median = {k: statistics.median(s[k] for s in seconds) for k in seconds[0]}
    tokens = w["prompts"] * w["group"] * w["new"]
    report = {"name": ARGS.workload, "torch": torch.__version__, "dtype": ARGS.dtype, "setting": ARGS.setting,
              "onednn": ARGS.onednn, "compile": ARGS.compile,
              "threads": ARGS.threads, "runs": ARGS.runs, "seconds": median, "best": min(s["step"] for s in seconds),
              "core_seconds": min(cores),
              "tokens_per_second": {"generate": tokens / median["generate"], "step": tokens / median["step"]},
              "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if "sft" in w:
        report["sft"] = {"seconds": statistics.median(sft_step(model) for _ in range(ARGS.runs + 1))}
    print(json.dumps(report))


main()
