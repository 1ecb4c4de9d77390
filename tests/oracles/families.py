#!/usr/bin/env python3
"""Writes tests/cases/families/FAMILY: a tiny checkpoint of random weights, and what transformers
computes with it in float32.

  python3 -m venv DIR && DIR/bin/pip install torch transformers==5.23.0
  DIR/bin/python tests/oracles/families.py FAMILY...

config.json, model.safetensors   the checkpoint, stored in bf16
expected.json                    ids, the log-probability of each id after the first, and for the sum
                                 of these the norm of the gradient of every parameter
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
}


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
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.randint(4, 40, (1, 20))
    logits = model(input_ids=ids).logits.log_softmax(-1)
    logps = logits[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
    logps.sum().backward()
    out = {"ids": ids[0].tolist(), "logps": logps.tolist(),
           "gradients": {name: p.grad.norm().item() for name, p in model.named_parameters()}}
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(out, file)
        file.write("\n")
    os.remove(os.path.join(folder, "generation_config.json"))


for name in sys.argv[1:]:
    main(name)
