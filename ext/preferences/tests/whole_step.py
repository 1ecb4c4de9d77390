#!/usr/bin/env python3
"""Compares a whole step of kind "dpo" with TRL's on the same weights: loss, norm of the gradient, metrics.

  pip install trl==1.16.0 torch==2.15.0 transformers==5.23.0
  python3 ext/preferences/tests/whole_step.py ./grpo

A small model and a reference are made by grpo; transformers reads both, in float64, and the loss is
that of DPOTrainer._compute_loss.  The last line is the greatest relative difference.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import torch
from transformers import AutoModelForCausalLM
from trl.trainer.dpo_trainer import DPOTrainer

MODELS = """local grpo = require "grpo"
local tok = grpo.tokenizer.chars("0123456789+=")
for i, name in ipairs { "policy", "reference" } do grpo.model.new({ model_type = "qwen3",
vocab_size = #tok, hidden_size = 48, intermediate_size = 96, num_hidden_layers = 2,
num_attention_heads = 4, num_key_value_heads = 2, head_dim = 12, max_position_embeddings = 32,
initializer_range = 0.3 }, { seed = i, tokenizer = tok }):save(name) end
"""
STEP = """local grpo = require "grpo"
return grpo.experiment {
  model = { path = "policy" }, reference = "reference",
  data = { train = grpo.data.jsonl("rows.jsonl"), max_prompt_tokens = 8, shuffle = false },
  sampling = { max_new_tokens = 8 },
  train = { steps = 1, prompts_per_step = 6, lr = 0, max_grad_norm = 0,
    dpo = grpo.json.decode(io.open("dpo.json"):read("a")) },
  stages = { { kind = "dpo" } },
}
"""
ROWS = [(f"{a}+{a}=", str(a + a), str((a * 7 + 3) % 10) + "001") for a in range(6)]
NAMES = """sigmoid hinge ipo nca_pair robust bco_pair sppo_hard aot aot_unpaired apo_zero apo_down discopop
sigmoid_norm""".split()
CASES = [dict(loss_type=name, beta=0.3) for name in NAMES] + [
    dict(loss_type="exo_pair", label_smoothing=0.1, beta=0.2),
    dict(loss_type="sigmoid", ld_alpha=0.3),
    dict(loss_type="sigmoid", use_weighting=True),
    dict(loss_type=["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.0]),
    dict(loss_type="sigmoid", f_divergence_type="js_divergence", beta=0.3),
    dict(loss_type="sigmoid", f_divergence_type="forward_kl", beta=0.01),
]
METRICS = """rewards/chosen rewards/rejected rewards/accuracies rewards/margins logps/chosen logps/rejected
entropy""".split()


class Wrapped(torch.nn.Module):
    """What TRL's fused head gives, from logits."""

    is_gradient_checkpointing = False

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, labels, **_):
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits[:, :-1]
        logp, target = torch.log_softmax(logits, -1), labels[:, 1:]
        chosen = logp.gather(-1, target.clamp(min=0)[..., None])[..., 0] * (target != -100)
        return types.SimpleNamespace(
            log_probs=chosen,
            log_sum_sq_probs=torch.logsumexp(2 * logp, -1),
            entropy=-(logp.exp() * logp).sum(-1),
            mean_logits=logits.mean(-1),
            is_top1=logits.argmax(-1) == target,
        )


def batch(vocab, eos):
    texts = [([vocab[c] for c in row[0]], [vocab[c] for c in row[k]] + [eos]) for k in (1, 2) for row in ROWS]
    longest = max(len(p) + len(c) for p, c in texts)
    ids = torch.zeros(len(texts), longest, dtype=torch.long)
    attention, completion = torch.zeros_like(ids), torch.zeros_like(ids)
    for i, (p, c) in enumerate(texts):
        ids[i, : len(p) + len(c)] = torch.tensor(p + c)
        attention[i, : len(p) + len(c)] = 1
        completion[i, len(p) : len(p) + len(c)] = 1
    return {"input_ids": ids, "attention_mask": attention, "completion_mask": completion}


def by_trl(policy, reference, inputs, o):
    kinds = o["loss_type"] if isinstance(o["loss_type"], list) else [o["loss_type"]]
    model = Wrapped(policy)
    same = lambda x: x
    accelerator = types.SimpleNamespace(device="cpu", gather=same, gather_for_metrics=same, unwrap_model=same)
    trainer = types.SimpleNamespace(
        accelerator=accelerator,
        aux_loss_enabled=False,
        precompute_ref_logps=False,
        _metrics={"train": collections.defaultdict(list)},
        _total_train_tokens=0,
        _tp_size=1,
        args=types.SimpleNamespace(gradient_checkpointing_kwargs=None, discopop_tau=0.05),
        model=model,
        ref_model=Wrapped(reference),
        loss_types=kinds,
        loss_weights=o.get("loss_weights", [1.0] * len(kinds)),
        beta=o.get("beta", 0.1),
        ld_alpha=o.get("ld_alpha"),
        f_divergence_type=o.get("f_divergence_type", "reverse_kl"),
        f_alpha_divergence_coef=0.5,
        label_smoothing=o.get("label_smoothing", 0.0),
        use_weighting=o.get("use_weighting", False),
    )
    policy.zero_grad()
    loss = DPOTrainer._compute_loss(trainer, model, inputs, False)
    loss.backward()
    norm = sum((p.grad**2).sum() for p in policy.parameters() if p.grad is not None).sqrt()
    metrics = {name: trainer._metrics["train"][name][0] for name in METRICS}
    return {"loss": loss.item(), "grad_norm": norm.item(), **metrics}


def by_grpo(grpo, work, o):
    (work / "dpo.json").write_text(json.dumps(o))
    subprocess.run(["rm", "-rf", work / "runs"], check=True)
    subprocess.run([grpo, "run", "step.lua", "--quiet", "--as", "x"], cwd=work, check=True, stdout=subprocess.DEVNULL)
    return json.loads((work / "runs/x/metrics.jsonl").read_text().splitlines()[0])


def main():
    grpo, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(tempfile.mkdtemp())
    (work / "step.lua").write_text(STEP)
    lines = [json.dumps({"prompt": p, "chosen": c, "rejected": r}) for p, c, r in ROWS]
    (work / "rows.jsonl").write_text("\n".join(lines) + "\n")
    subprocess.run([grpo, "repl"], cwd=work, input=MODELS.replace("\n", " "), text=True, check=True)
    policy, reference = (AutoModelForCausalLM.from_pretrained(work / n, dtype=torch.float64) for n in ("policy", "reference"))
    vocab = json.loads((work / "policy/tokenizer.json").read_text())["model"]["vocab"]
    inputs, worst = batch(vocab, policy.config.eos_token_id), 0
    for o in CASES:
        want, got = by_trl(policy, reference, inputs, o), by_grpo(grpo, work, o)
        off = {name: abs(v - got[name]) / max(1, abs(v)) for name, v in want.items()}
        worst = max(worst, *off.values())
        print(f"{json.dumps(o)}: loss {want['loss']:.6f}, gradient {want['grad_norm']:.6f}; off by {max(off.values()):.1e}")
    print(f"worst {worst:.1e}")


main()
