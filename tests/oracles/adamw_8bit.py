#!/usr/bin/env python3
"""Writes tests/cases/adamw_8bit: what bitsandbytes' own code gives, on a CPU.

  python3 -m venv DIR && DIR/bin/pip install torch bitsandbytes==0.50.2
  TORCHDYNAMO_DISABLE=1 DIR/bin/python tests/oracles/adamw_8bit.py tests/cases/adamw_8bit

map.txt       the two dynamic maps, signed then unsigned, one value a line
codes.txt     value, signed code, unsigned code (or -) of numbers between -1 and 1
steps.txt     a line of settings "N lr beta1 beta2 eps weight_decay steps", then for every step the
              lines "step index parameter m v": some parameters, and the moments that their codes mean
Values are written so that float32 reads them back exactly.  Parameters and gradients are the
integers below times powers of two, which any program computes exactly.
"""

import os
import sys

import numpy as np
import torch
from bitsandbytes.backends.triton import kernels_optim
from bitsandbytes.functional import create_dynamic_map

N, LR, BETA1, BETA2, EPS, DECAY, STEPS = 4500, 1e-2, 0.9, 0.999, 1e-8, 0.1, 8
SHOWN = list(range(0, N, 61)) + [255, 256, 4351, 4352, N - 1]


def number(seed, i):
    """An integer from -1000 to 1000, times 2^-10, over 2^(4 (i % 3)): three magnitudes."""
    h = (i * 2654435761 + seed * 40503) % 4294967296
    h = ((h >> 15) ^ h) * 2246822519 % 4294967296
    return ((h >> 13) % 2001 - 1000) / 1024.0 / 16.0 ** (i % 3)


def tensor(seed):
    return torch.tensor([number(seed, i) for i in range(N)], dtype=torch.float32)


def show(x):
    return "%.9g" % float(x)


def write_map(folder, maps):
    with open(os.path.join(folder, "map.txt"), "w") as f:
        for m in maps:
            f.writelines(show(x) + "\n" for x in m)


def code(value, m):
    """bitsandbytes' own quantisation of one value whose block has the scale 1."""
    block = torch.zeros(256)
    block[0], block[1] = 1.0, value
    return int(kernels_optim._quantize_blockwise_pytorch(block, m, 256)[0][1])


def write_codes(folder, maps):
    values = {0.0, 1.0, -1.0, 1e-7, -1e-7, 1e-8, -3e-7, 1e-12}
    for m in maps:
        middle = (m[:-1].double() + m[1:].double()) / 2
        for x in list(m[::9].tolist()) + list(middle[::7].tolist()):
            y = np.float32(x)
            values |= {float(y), float(np.nextafter(y, np.float32(1))),
                       float(np.nextafter(y, np.float32(-1)))}
    with open(os.path.join(folder, "codes.txt"), "w") as f:
        for x in sorted(values):
            unsigned = str(code(x, maps[1])) if x >= 0 else "-"
            f.write("%s %d %s\n" % (show(x), code(x, maps[0]), unsigned))


def write_steps(folder, maps):
    p = tensor(1)
    blocks = -(-N // 256)
    codes = [torch.zeros(N, dtype=torch.uint8) for _ in range(2)]
    scales = [torch.zeros(blocks) for _ in range(2)]
    with open(os.path.join(folder, "steps.txt"), "w") as f:
        f.write("%d %g %g %g %g %g %d\n" % (N, LR, BETA1, BETA2, EPS, DECAY, STEPS))
        for step in range(1, STEPS + 1):
            kernels_optim.optimizer_update_8bit_blockwise_pytorch(
                p, tensor(step + 1), codes[0], codes[1], BETA1, BETA2, 0.0, 0.0, EPS, step, LR,
                maps[0], maps[1], scales[0], scales[1], DECAY, 1.0, False, optimizer_name="adam")
            for i in SHOWN:
                m, v = (maps[k][int(codes[k][i])] * scales[k][i // 256] for k in range(2))
                f.write("%d %d %s %s %s\n" % (step, i, show(p[i]), show(m), show(v)))


def main(folder):
    os.makedirs(folder, exist_ok=True)
    maps = [create_dynamic_map(signed=True), create_dynamic_map(signed=False)]
    write_map(folder, maps)
    write_codes(folder, maps)
    write_steps(folder, maps)


main(sys.argv[1])
