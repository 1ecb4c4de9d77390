#!/usr/bin/env python3
"""Writes tests/cases/families/FAMILY: a tiny checkpoint of random weights, and what transformers
computes with it in float32.

  python3 -m venv DIR && DIR/bin/pip install torch transformers==5.23.0
  DIR/bin/python tests/oracles/families.py FAMILY...

config.json, model.safetensors   the checkpoint, stored in bf16
expected.json                    ids, the log-probability of each id after the first, and for the sum
                                 of these the norm of the gradient of every parameter; of mixtures of
                                 experts the same for the auxiliary loss of all ids but the last
"""

import json
import os
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

# What differs from the tiny model below; a value for every option that changes the result.
FAMILIES = {
    "nanochat": {"final_logit_softcapping": 3.0},
    "arcee": {"mlp_bias": True, "attention_bias": True, "head_dim": 6, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "beta_fast": 4.0, "beta_slow": 1.0,
        "original_max_position_embeddings": 16}},
    "granitemoehybrid": {"layer_types": ["full_attention"] * 2, "num_local_experts": 0,
        "shared_intermediate_size": 24, "position_embedding_type": "rope", "mamba_n_heads": 1,
        "embedding_multiplier": 1.7, "attention_multiplier": 0.3, "residual_multiplier": 0.6,
        "logits_scaling": 1.3},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 8,
        "embedding_multiplier": 1.7, "attention_multiplier": 0.3, "residual_multiplier": 0.6,
        "logits_scaling": 1.3},
    "qwen2_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
        "shared_expert_intermediate_size": 12, "decoder_sparse_step": 1, "qkv_bias": True},
}

# In the files of these families each expert's matrices are apart: gate, up, down.
EXPERTS = {"mixtral": "block_sparse_moe.experts.{}.{}.weight w1 w3 w2",
           "qwen2_moe": "mlp.experts.{}.{}.weight gate_proj up_proj down_proj"}

MIXTURES = ["mixtral", "granitemoe", "qwen2_moe"]


def gradients(family, name, grad):
    """(name in the file, gradient) of a parameter, or of those of all experts."""
    if family == "granitemoe":
        name = name.replace("router.weight", "router.layer.weight")
        linear = "input_linear" if name.endswith("gate_up_proj") else "output_linear"
        before = name.split("experts.")[0] + "experts."
        return [(name, grad)] if ".experts." not in name else [
            (f"{before}{e}.{linear}.weight", g) for e, g in enumerate(grad)]
    if "mlp.experts." not in name:
        if family == "mixtral":
            name = name.replace(".mlp.", ".block_sparse_moe.")
        return [(name, grad)]
    before, last = name.split("mlp.experts.")
    pattern, gate, up, down = EXPERTS[family].split()
    out = []
    for e, g in enumerate(grad):
        half = len(g) // 2
        parts = [(down, g)] if last == "down_proj" else [(gate, g[:half]), (up, g[half:])]
        out += [(before + pattern.format(e, part), value) for part, value in parts]
    return out


def main(family):
    folder = os.path.join("tests/cases/families", family)
    torch.manual_seed(3)
    config = AutoConfig.for_model(family, **{
        "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
        "initializer_range": 0.4, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1,
        **FAMILIES[family]})
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():  # norms and biases are not to be ones and zeros
        if parameter.ndim == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    model.to(torch.bfloat16).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                 experts_implementation="eager")
    ids = torch.randint(4, 40, (1, 20))
    logits = model(input_ids=ids).logits.log_softmax(-1)
    logps = logits[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
    logps.sum().backward()
    out = {"ids": ids[0].tolist(), "logps": logps.tolist(),
           "gradients": {name: g.norm().item() for whole, p in model.named_parameters()
                         for name, g in gradients(family, whole, p.grad)}}
    if family in MIXTURES:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        loss = model(input_ids=ids[:, :-1], output_router_logits=True).aux_loss
        loss.backward()
        out["aux_loss"] = loss.item()
        out["aux_gradients"] = {name: g.norm().item() for whole, p in model.named_parameters()
                                for name, g in gradients(family, whole, p.grad)}
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(out, file)
        file.write("\n")
    os.remove(os.path.join(folder, "generation_config.json"))


for name in sys.argv[1:]:
    main(name)
