#!/usr/bin/env python3
"""Writes tests/cases/mathematics.txt: what mpmath computes with 300 bits for functions of doubles.

  python3 -m venv DIR && DIR/bin/pip install mpmath==1.3.0
  DIR/bin/python tests/oracles/mathematics.py

Each line is a function, its arguments (x, and y where there are two), and its value as the sum of
two doubles, all in C's hexadecimal form.  tests/base/test_mathematics.c compares.
"""

import os
import random

import mpmath as mp

mp.mp.prec = 300
ROWS = 48
SEED = 40
TINY = [2.0**-1074, 3e-310, 2.0**-1022, 1e-300, 1e-17, 2.0**-54, 2.0**-28, 2.0**-27, 1e-5]
NEAR_ONE = [1 - 2.0**-53, 1 + 2.0**-52, 0.9999, 1.0001, 0.7071067811865475, 0.7071067811865476,
            1.414213562373095, 1.4142135623730951]
# nearest to multiples of pi/2 among doubles of their size, and large ones
TURNS = [1.5707963267948966, 3.141592653589793, 6.283185307179586, 355.0, 103993.0, 1048576.0,
         1048577.0, 6381956970095103.0 * 2.0**797, 1e22, 2.0**1023, 1.7976931348623157e308,
         5.319372648326541e255, 2.0**60, 12345678.9]
EXPONENTS = [-745.1, -745.13, -708.4, -37.5, -0.3465735, 0.3465736, 0.69314718, 709.78, 88.0]
# of random arguments those with the largest error
HARD = {"exp": ["-0x1.f5b21b4fa29aap-1"], "log": ["0x1.686ee4dbb1305p+0"],
        "expm1": ["0x1.8a6a6440f2f68p-2"], "tanh": ["0x1.843c8113be548p-3"],
        "sin": ["-0x1.d66270c0ad818p+17"], "cos": ["-0x1.a173a88feec94p+19"],
        "tan": ["0x1.5005d34dcc00ep+22"], "erf": ["0x1.3457e40af0618p+0", "0x1.12347f4979ddep-1"],
        "sinh": ["0x1.94198a3d3283cp-2"], "cosh": ["-0x1.7bec9a1a819ep+5"]}
# name: function, range of random arguments, special ones
FUNCTIONS = {
    "exp": (mp.exp, (-745, 709), TINY + EXPONENTS),
    "expm1": (mp.expm1, (-3, 3), TINY + [-t for t in TINY] + EXPONENTS[3:]),
    "log": (mp.log, (0, 4), TINY + NEAR_ONE + [1e300]),
    "log1p": (mp.log1p, (-1, 3), TINY + [-t for t in TINY] + [1e17, 1e300, 2.0**53]),
    "log2": (lambda x: mp.log(x, 2), (0, 4), TINY + NEAR_ONE + [8.0, 2.0**-1074, 1e300]),
    "log10": (mp.log10, (0, 4), TINY + NEAR_ONE + [10.0, 1e15, 1e22, 1e-5, 1e300]),
    "sin": (mp.sin, (-100, 100), TINY + TURNS + [-t for t in TURNS]),
    "cos": (mp.cos, (-100, 100), TINY + TURNS + [-t for t in TURNS]),
    "tan": (mp.tan, (-100, 100), TINY + TURNS + [-t for t in TURNS]),
    "asin": (mp.asin, (-1, 1), TINY + NEAR_ONE[:1] + NEAR_ONE[2:3] + [1.0, -1.0, 0.5]),
    "acos": (mp.acos, (-1, 1), TINY + NEAR_ONE[:1] + NEAR_ONE[2:3] + [-1.0, 0.5, 0.0]),
    "atan": (mp.atan, (-9, 9), TINY + NEAR_ONE + [1e18, 1e300, 0.0625, 0.1875]),
    "tanh": (mp.tanh, (-20, 20), TINY + [0.25, 21.9, 22.1, 300.0]),
    "sinh": (mp.sinh, (-710, 710), TINY + [0.25, 39.9, 40.1, 710.4]),
    "cosh": (mp.cosh, (-710, 710), TINY + [0.25, 39.9, 40.1, 710.4]),
    "erf": (mp.erf, (-6, 6), TINY + [0.5, 0.49999, 1.25, 2.125, 3.125, 4.375, 5.99, 7.0]),
}


def parts(value):
    high = float(value)
    return high, float(value - high)


def line(name, arguments, value):
    return " ".join([name] + [float(x).hex() for x in (*arguments, *parts(value))])


def rows():
    draw = random.Random(SEED)
    for name, (function, (low, high), special) in FUNCTIONS.items():
        xs = special + [float.fromhex(x) for x in HARD.get(name, [])]
        xs += [draw.uniform(low, high) for _ in range(max(8, ROWS - len(xs)))]
        for x in xs:
            yield line(name, (x,), function(mp.mpf(x)))
    for i in range(2 * ROWS):
        x, y = 2.0**draw.uniform(-30, 30), draw.uniform(-20, 20)
        if i % 4 == 0:
            x, y = 1 + draw.uniform(-1e-9, 1e-9), draw.uniform(-3e11, 3e11)
        if i % 16 == 1:
            x, y = 2.0**draw.uniform(-1074, -1020), draw.uniform(-0.99, 1.01)
        yield line("pow", (x, y), mp.mpf(x)**mp.mpf(y))
    for x, y in [(-2.0, 3.0), (-2.0, 1023.0), (10.0, 22.0), (10.0, -300.0), (0.5, 1074.0),
                 (1 - 2.0**-53, 2.0**62), (1 + 2.0**-52, 2.0**61), (3.0, 1e-300), (9.0, 0.5)]:
        yield line("pow", (x, y), mp.mpf(x)**mp.mpf(y))
    for i in range(ROWS):
        y, x = draw.uniform(-1, 1), draw.uniform(-1, 1) * 2.0**draw.randint(-30, 30)
        if i % 3 == 0:
            y, x = y * 2.0**-1030, x * 2.0**-1030
        if i % 3 == 1:
            y, x = y * 2.0**990, x * 2.0**990
        yield line("atan2", (y, x), mp.atan2(mp.mpf(y), mp.mpf(x)))
    for y, x in [(1e-300, 1.0), (1e-320, 3.0), (1e-300, -1.0), (1.0, 1e-300), (-1.0, 1e300),
                 (2.0**-60, 1.0), (2.0**-61, 1.0), (1.0, -1.0), (3.0, 4.0)]:
        yield line("atan2", (y, x), mp.atan2(mp.mpf(y), mp.mpf(x)))


here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "../cases/mathematics.txt"), "w", encoding="ascii") as out:
    out.write("\n".join(rows()) + "\n")
