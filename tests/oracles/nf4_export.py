#!/usr/bin/env python3
"""Loads what 'grpo export --quantize nf4' writes with transformers and bitsandbytes, and runs it.

  python3 -m venv DIR && DIR/bin/pip install torch transformers==5.23.0 accelerate bitsandbytes
  DIR/bin/python tests/oracles/nf4_export.py ./grpo CHECKPOINT...

Every tensor that is not packed must be the checkpoint's, rounded to bf16, and every module that
transformers takes for a packed one must have packed weights.  The values of packed weights are
compared in tests/checkpoint, because bitsandbytes 0.50 unpacks rows of fewer than 64 numbers
wrongly on a CPU.
"""

import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM


def check(grpo, source):
    with tempfile.TemporaryDirectory() as folder:
        out = folder + "/nf4"
        subprocess.run([grpo, "export", source, out, "--quantize", "nf4"], check=True,
                       capture_output=True)
        model = AutoModelForCausalLM.from_pretrained(
            out, device_map="cpu", dtype=torch.bfloat16, experts_implementation="eager")
    packed = {name for name, p in model.named_parameters() if p.dtype == torch.uint8}
    bare = [name for name, module in model.named_modules()
            if type(module).__name__ == "Linear4bit" and name + ".weight" not in packed]
    source_model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    plain = {name.replace("language_model.", ""): p for name, p in source_model.named_parameters()}
    wrong = [name for name, p in model.named_parameters()
             if name not in packed and not torch.equal(
                 p.to(torch.bfloat16), plain[name.replace("language_model.", "")])]
    finite = model(input_ids=torch.arange(5, 25)[None]).logits.isfinite().all().item()
    print(f"{source}: {len(packed)} packed, not packed but expected so: {bare or 'none'}, "
          f"changed: {wrong or 'none'}, logits are {'finite' if finite else 'NOT finite'}")
    return not bare and not wrong and finite


results = [check(sys.argv[1], source) for source in sys.argv[2:]]
sys.exit(0 if all(results) else 1)
