#!/usr/bin/env python3
"""Writes tests/cases/classifier: tiny checkpoints with a sequence-classification head, of random
weights, and what transformers computes with them in float32.

  python3 -m venv DIR && DIR/bin/pip install torch transformers==5.23.0
  DIR/bin/python tests/oracles/classifiers.py tests/cases/classifier

FAMILY/config.json, FAMILY/model.safetensors   the checkpoint, stored in bf16
logits.jsonl                                   {"model": FAMILY, "ids": [...], "logits": [...]}
A sequence may end in padding tokens, or consist of nothing else.  Every sequence is also computed in
a batch that is padded on the right; both must agree.
"""

import json
import os
import random
import sys

import torch
from transformers import (Gemma2Config, Gemma2ForSequenceClassification, LlamaConfig,
                          LlamaForSequenceClassification, Qwen2Config,
                          Qwen2ForSequenceClassification)

VOCAB, PAD = 40, 3
SHAPE = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
             initializer_range=0.4, pad_token_id=PAD, bos_token_id=1, eos_token_id=2)

MODELS = {
    "llama": lambda: LlamaForSequenceClassification(
        LlamaConfig(num_labels=1, tie_word_embeddings=False, **SHAPE)),
    "qwen2": lambda: Qwen2ForSequenceClassification(
        Qwen2Config(id2label={0: "bad", 1: "fair", 2: "good"},
                    label2id={"bad": 0, "fair": 1, "good": 2}, tie_word_embeddings=True, **SHAPE)),
    "gemma2": lambda: Gemma2ForSequenceClassification(
        Gemma2Config(num_labels=2, head_dim=8, query_pre_attn_scalar=8, sliding_window=6, **SHAPE)),
}


def sequences():
    r = random.Random(7)
    rows = [[5], [PAD], [9, PAD], [PAD, PAD, PAD], [PAD, 8, PAD, 11, PAD, PAD]]
    for n in (2, 3, 7, 12, 30):
        rows.append([r.randrange(4, VOCAB) for _ in range(n)])
    shared = [r.randrange(4, VOCAB) for _ in range(9)]
    rows += [shared + [r.randrange(4, VOCAB) for _ in range(n)] for n in (1, 4, 8)]
    rows.append(shared)
    return rows


def logits_of(model, rows):
    longest = max(len(row) for row in rows)
    ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    with torch.no_grad():
        together = model(input_ids=ids, attention_mask=mask).logits
        alone = torch.cat([model(input_ids=torch.tensor([row])).logits for row in rows])
    assert (together - alone).abs().max() < 1e-4
    return alone


def main(folder):
    out = []
    for number, (name, make) in enumerate(MODELS.items()):
        torch.manual_seed(number)
        model = make().to(torch.bfloat16)
        for key, p in model.named_parameters():
            if key.endswith("bias") or "norm" in key:
                p.data += 0.2 * torch.randn_like(p)
        model.save_pretrained(os.path.join(folder, name))
        os.chmod(os.path.join(folder, name, "model.safetensors"), 0o644)
        model = type(model).from_pretrained(os.path.join(folder, name), dtype=torch.float32,
                                            attn_implementation="eager").eval()
        for row, logits in zip(sequences(), logits_of(model, sequences())):
            out.append({"model": name, "ids": row, "logits": [float("%.9g" % x) for x in logits]})
    with open(os.path.join(folder, "logits.jsonl"), "w") as f:
        f.writelines(json.dumps(row) + "\n" for row in out)


main(sys.argv[1])
