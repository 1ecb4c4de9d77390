#!/usr/bin/env python3
"""Writes tests/cases/families/FAMILY: a tiny checkpoint of random weights, and what transformers
computes with it in float32, one row at a time.

  python3 -m venv DIR && DIR/bin/pip install torch transformers==5.23.0 peft==0.21.2
  DIR/bin/python tests/oracles/checkpoints.py FAMILY...

checkpoint/                      config.json and model.safetensors, stored in bf16
forward.json, .safetensors       three rows: log-probabilities, entropies, greedy continuations,
                                 made without a cache; the logits of the first row
routes.json                      the experts that the tokens of the first row take, by layer
grpo_problem.json                two groups of four completions
grpo_expected.json               the losses of three variants and the norms of their gradients
grpo_grads.safetensors           grpo_beta/PARAMETER: the gradient, under the file's names
adapter/, lora_expected.json, lora_grads.safetensors
                                 an adapter by PEFT on all linear layers, and the same for it

tests/checkpoint/test_oracles.c and test_oracle_texts.c compare them.
"""

import json
import os
import shutil
import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

TINY = {"vocab_size": 266, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
        "initializer_range": 0.3, "norm_eps": 1e-3, "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 0}
# What differs from the tiny model; a value for every option that changes the result.
FAMILIES = {
    "lfm3": {"num_hidden_layers": 5, "head_dim": 8, "sliding_window": 5, "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        "full_attention": {"rope_type": "proportional", "rope_theta": 100.0,
                           "partial_rotary_factor": 0.5}}},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"],
                 "num_dense_layers": 1, "num_experts": 5, "num_experts_per_tok": 2,
                 "moe_intermediate_size": 8, "routed_scaling_factor": 1.5},
}
VARIANTS = {"grpo_beta": {"beta": 0.04},
            "dapo": {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28},
            "gspo": {"importance_sampling_level": "sequence", "epsilon": 0.0003,
                     "epsilon_high": 0.0004}}


def randomise(model):
    """Norms and biases are not to be ones and zeros, nor a router's sum of scores large."""
    for name, x in [*model.named_parameters(), *model.named_buffers()]:
        if x.ndim == 1 and "inv_freq" not in name:
            x.data += 0.1 * torch.randn_like(x)
    if model.config.model_type == "lfm2_moe":  # so that what is added to that sum is seen
        model.get_input_embeddings().weight.data += 1
        for layer in model.model.layers[model.config.num_dense_layers:]:
            layer.feed_forward.gate.weight.data -= 0.7


def make_checkpoint(family, folder):
    torch.manual_seed(3)
    config = AutoConfig.for_model(family, **{**TINY, **FAMILIES[family]})
    model = AutoModelForCausalLM.from_config(config)
    randomise(model)
    buffers = {name: x.clone() for name, x in model.named_buffers()}
    model.to(torch.bfloat16)
    for name, x in buffers.items():  # such as the bias of a router, which files hold in float32
        setattr(model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2], x)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))


def load(folder):
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager")


def row(model, ids, begin, temperature=1.0):
    """Log-probabilities of ids[begin:], and the entropies of their distributions."""
    logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, begin - 1:-1]
    logp = (logits / temperature).log_softmax(-1)
    entropy = -(logp.exp() * logp).sum(-1)
    return logp.gather(1, torch.tensor(ids[begin:])[:, None])[:, 0], entropy


def greedy(model, ids):
    new, smallest = [], float("inf")
    for _ in range(8):
        best = model(input_ids=torch.tensor([ids + new]), use_cache=False).logits[0, -1].topk(2)
        smallest = min(smallest, (best.values[0] - best.values[1]).item())
        new.append(best.indices[0].item())
    return {"new_tokens": new, "smallest_top2_margin": smallest}


def random_ids(n):
    return torch.randint(3, TINY["vocab_size"], (n,)).tolist()


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.write("\n")


@torch.no_grad()
def write_forward(model, folder):
    rows = [random_ids(n) for n in (6, 12, 22)]
    values = [row(model, ids, 1) for ids in rows]
    write(folder, "forward.json", {
        "input_ids": rows, "next_token_logprobs": [v[0].tolist() for v in values],
        "entropies": [v[1].tolist() for v in values],
        "greedy": [greedy(model, ids) for ids in rows]})
    write_routes(model, rows[0], folder)
    logits = model(input_ids=torch.tensor(rows[:1]), use_cache=False).logits[0]
    save_file({"logits.0": logits.contiguous()}, os.path.join(folder, "forward.safetensors"))


@torch.no_grad()
def write_routes(model, ids, folder):
    routes = []
    hooks = [m.register_forward_hook(lambda _, args, out: routes.append(out)) for m in model.modules()
             if type(m).__name__.endswith("TopKRouter")]
    model(input_ids=torch.tensor([ids]), use_cache=False)
    for hook in hooks:
        hook.remove()
    if routes:  # (logits, weights, experts) of each layer
        write(folder, "routes.json", {"experts": [r[2].tolist() for r in routes],
                                      "weights": [r[1].tolist() for r in routes]})


@torch.no_grad()
def expected(model, p, temperature=1.0):
    values = [row(model, p["prompts"][g] + c, len(p["prompts"][g]), temperature)
              for g, c in zip(p["group"], p["completions"])]
    return {"logps": [v[0].tolist() for v in values], "entropies": [v[1].tolist() for v in values]}


def near(logps, by):
    return [(torch.tensor(x) + by * torch.randn(len(x))).tolist() for x in logps]


def make_problem(model, folder):
    lengths = [3, 1, 9, 5, 7, 12, 2, 10]
    p = {"prompts": [random_ids(5), random_ids(8)], "completions": [random_ids(n) for n in lengths],
         "group": [i // 4 for i in range(8)],
         "advantages": [0.9, -0.9, 0.9, -0.9, 1.5, -0.5, -0.5, -0.5], "max_completion_length": 16}
    p["expected"] = expected(model, p)
    p["expected_temperature_0.7"] = expected(model, p, 0.7)
    p["old_logps"] = near(p["expected"]["logps"], 0.2)
    p["ref_logps"] = near(p["expected"]["logps"], 0.3)
    p["sampling_logps"] = near(p["old_logps"], 0.1)
    p["tool_mask"] = [[1] * n for n in lengths]
    p["per_token_advantages"] = [[a] * n for a, n in zip(p["advantages"], lengths)]
    write(folder, "grpo_problem.json", p)
    return p


def row_loss(settings, logp, old, ref, advantage):
    """The terms of one completion's tokens."""
    ratio = logp - old
    if settings.get("importance_sampling_level") == "sequence":
        ratio = ratio.mean().expand_as(ratio)
    w = ratio.exp()
    low = settings.get("epsilon", 0.2)
    clipped = w.clamp(1 - low, 1 + settings.get("epsilon_high", low))
    loss = -torch.minimum(w * advantage, clipped * advantage)
    return loss + settings.get("beta", 0) * ((ref - logp).exp() - (ref - logp) - 1)


def backward(model, p, settings):
    model.zero_grad()
    tokens = sum(len(c) for c in p["completions"])
    total = 0
    for i, completion in enumerate(p["completions"]):
        prompt = p["prompts"][p["group"][i]]
        logp, _ = row(model, prompt + completion, len(prompt))
        terms = row_loss(settings, logp, torch.tensor(p["old_logps"][i]),
                         torch.tensor(p["ref_logps"][i]), p["advantages"][i])
        dapo = settings.get("loss_type") == "dapo"
        loss = terms.sum() / tokens if dapo else terms.mean() / len(p["completions"])
        loss.backward()
        total += loss.item()
    return total


def of_file(model):
    """The gradients under the names and in the shapes of the file: those of saved weights."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, state_dict={
            name: p.grad.contiguous() for name, p in model.named_parameters()})
        return load_file(os.path.join(folder, "model.safetensors"))


def of_adapter(model):
    return {name.replace("base_model.model.", "").replace(".default", ""): p.grad.contiguous()
            for name, p in model.named_parameters() if p.requires_grad}


def variants(model, p, names, gradients_of):
    out, stored = [], {}
    for name in names:
        loss = backward(model, p, VARIANTS[name])
        grads = gradients_of(model)
        norms = {key: g.norm().item() for key, g in grads.items()}
        if name == "grpo_beta":
            stored = {f"{name}/{key}": g for key, g in grads.items()}
        out.append({"name": name, "settings": VARIANTS[name], "loss": loss,
                    "grad_norm": sum(n * n for n in norms.values()) ** 0.5,
                    "param_grad_norms": norms,
                    "stored_gradients": sorted(grads) if name == "grpo_beta" else []})
    return out, stored


def write_adapter(model, p, folder):
    layers = [name for name, m in model.named_modules() if isinstance(m, torch.nn.Linear)
              and m is not model.get_output_embeddings() and "router" not in name]
    model = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, target_modules=layers,
                                             task_type="CAUSAL_LM"))
    for name, x in model.named_parameters():
        if "lora_" in name:
            x.data = 0.2 * torch.randn_like(x)
    model.save_pretrained(os.path.join(folder, "adapter"))
    os.remove(os.path.join(folder, "adapter/README.md"))
    out, stored = variants(model, p, ["grpo_beta", "dapo"], of_adapter)
    for v in out:
        del v["stored_gradients"]
    write(folder, "lora_expected.json", {**expected(model, p), "variants": out})
    save_file(stored, os.path.join(folder, "lora_grads.safetensors"))


def main(family):
    folder = os.path.join("tests/cases/families", family)
    shutil.rmtree(folder, ignore_errors=True)
    make_checkpoint(family, os.path.join(folder, "checkpoint"))
    model = load(os.path.join(folder, "checkpoint"))
    write_forward(model, folder)
    p = make_problem(model, folder)
    out, stored = variants(model, p, VARIANTS, of_file)
    write(folder, "grpo_expected.json", out)
    save_file(stored, os.path.join(folder, "grpo_grads.safetensors"))
    write_adapter(model, p, folder)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for word in sys.argv[1:]:
        main(word)
