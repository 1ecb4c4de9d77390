#!/usr/bin/env python3
"""Writes tests/cases/nanochat: a tiny checkpoint of random weights, and what transformers computes
with it in float32.

  python3 -m venv DIR && DIR/bin/pip install torch transformers==5.23.0
  DIR/bin/python tests/oracles/nanochat.py tests/cases/nanochat

config.json, model.safetensors   the checkpoint, stored in bf16
expected.json                    ids, the log-probability of each id after the first, and for the sum
                                 of these the norm of the gradient of every parameter
"""

import json
import os
import sys

import torch
from transformers import NanoChatConfig, NanoChatForCausalLM


def main(folder):
    torch.manual_seed(3)
    config = NanoChatConfig(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                            initializer_range=0.4, final_logit_softcapping=3.0, bos_token_id=0,
                            eos_token_id=1, pad_token_id=1)
    NanoChatForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    model = NanoChatForCausalLM.from_pretrained(folder, dtype=torch.float32)
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


main(sys.argv[1])
