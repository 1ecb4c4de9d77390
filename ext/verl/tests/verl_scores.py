#!/usr/bin/env python3
"""Writes ext/verl/tests/cases/scores.jsonl: what verl's own scorers give for a table of texts.

  pip download --no-deps verl==0.9.1 && unzip verl-0.9.1-*.whl 'verl/utils/reward_score/*'
  python3 ext/verl/tests/verl_scores.py verl/utils/reward_score > ext/verl/tests/cases/scores.jsonl
  python3 ext/verl/tests/verl_scores.py DIRECTORY 100000 > more.jsonl   # more random texts

A line is [method, text, gold, score, what was extracted or null].  Every branch of the scorers has a
text here; random texts, put together from what the scorers look for, follow with a fixed seed.  The
modules are loaded by their paths, so that none of verl's own requirements is needed.
"""

import contextlib
import importlib.util
import io
import json
import random
import sys

BOXED = {  # content of \boxed{} -> golds
    "7": ["7", "8", " 7 ", "7.0", "\\boxed{7}"],
    "": ["", "0"],
    "1\\!2": ["12"],
    "1\n2": ["12"],
    "a\\\\b": ["a\\b", "a\\\\b"],
    "\\\\!3": ["\\3", "3", "\\!3"],
    "\\tfrac12": ["\\frac{1}{2}", "1/2", "0.5", ".5"],
    "\\dfrac{3}4": ["\\frac{3}{4}", "\\frac{3}4"],
    "dtfrac12": ["frac12", "dfrac12", "tfrac12"],
    "\\left(1,\\right)": ["(1,)", "\\left(1,)"],
    "\\leftarrow": ["arrow"],
    "90^\\circ": ["90", "90^{\\circ}"],
    "90^{\\circ}": ["90"],
    "\\$5": ["5", "$5", "\\$5"],
    "$5$": ["5", "$5$"],
    "5\\text{ cm}": ["5", "5\\text{ m}", "5\\text{cm}"],
    "5\\text{ a}\\text{ b}": ["5", "5\\text{ a}\\text{ b}", "5\\text{ a}"],
    "5\\text{cm}": ["5", "5\\text{cm}"],
    "\\text{ cm}": ["", "x"],
    "50%": ["50", "50%", "50\\%"],
    "50\\%": ["50", "50%"],
    "50\\\\%": ["50"],
    "50\\\\\\\\%": ["50", "50\\"],
    "x + .5": ["x+0.5", "x+.5"],
    "{.5}": ["{0.5}"],
    ".5": ["0.5", "\\frac{1}{2}", "0.50"],
    ".": ["0.", "."],
    "0.5": ["\\frac{1}{2}", "1/2"],
    "-0.5": ["-\\frac{1}{2}", "-1/2"],
    "x=5": ["5", "x=5", "y=5"],
    "k = 5": ["5"],
    "ab=5": ["5"],
    "abc=5": ["5", "abc=5"],
    "\u03b1\u03b2=5": ["5"],
    "\u03b1\u03b2\u03b3=5": ["5"],
    "=5": ["5"],
    "x=": ["", "x="],
    "x=y=5": ["5", "x=y=5"],
    "x\\leq 5": ["x\\leq5"],
    "\\sqrt2": ["\\sqrt{2}"],
    "\\sqrt{2}": ["\\sqrt2", "\\sqrt 2"],
    "\\sqrt 2": ["\\sqrt{2}", "\\sqrt{}2", "\\sqrt{ }2"],
    "\\sqrt": ["\\sqrt", "\\sqrt{}"],
    "\\sqrt\\sqrt{2}": ["\\sqrt\\sqrt{2}", "\\sqrt{\\}sqrt{2}"],
    "2\\sqrt": ["2\\sqrt", "2 \\sqrt"],
    "\\sqrt\u03b1": ["\\sqrt{\u03b1}"],
    "\\sqrt12": ["\\sqrt{1}2", "\\sqrt{12}"],
    "\\frac12": ["\\frac{1}{2}", "1/2"],
    "\\frac1{72}": ["\\frac{1}{72}"],
    "\\frac{72}1": ["\\frac{72}1", "\\frac{72}{1}"],
    "\\frac{1}{2}\\frac34": ["\\frac{1}{2}\\frac{3}{4}"],
    "\\frac123": ["\\frac{1}{2}3"],
    "\\frac": ["\\frac"],
    "\\frac1": ["\\frac1", "\\frac{1}"],
    "\\frac12\\frac3": ["\\frac12\\frac3", "\\frac{1}{2}\\frac3"],
    "\\frac3\\frac": ["\\frac3\\frac"],
    "\\frac\\frac12": ["\\frac\\frac12", "\\frac{\\}{f}rac12"],
    "\\frac\u03b1\u03b2": ["\\frac{\u03b1}{\u03b2}"],
    "\\frac1{": ["\\frac{1}{"],
    "\\frac 1 2": ["\\frac{1}{2}"],
    "1/2": ["\\frac{1}{2}", "0.5", "\\frac12"],
    "-1/2": ["\\frac{-1}{2}", "-\\frac{1}{2}"],
    "1/-2": ["\\frac{1}{-2}"],
    "01/2": ["\\frac{1}{2}", "\\frac{01}{2}", "01/2"],
    "-0/2": ["\\frac{0}{2}", "\\frac{-0}{2}", "-0/2"],
    "0/2": ["\\frac{0}{2}"],
    "+1/2": ["\\frac{1}{2}", "+1/2"],
    "1_0/2": ["\\frac{10}{2}", "1_0/2"],
    "1/2/3": ["1/2/3", "\\frac{1}{2}/3"],
    "a/b": ["\\frac{a}{b}", "a/b"],
    "1/": ["1/", "\\frac{1}{}"],
    "/": ["/"],
    "1\t/2": ["\\frac{1}{2}", "1\t/2"],
    "1" * 4300 + "/2": ["\\frac{" + "1" * 4300 + "}{2}"],
    "1" * 4301 + "/2": ["\\frac{" + "1" * 4301 + "}{2}", "1" * 4301 + "/2"],
    "1,000": ["1000", "1,000"],
    "a{b{c}d}e": ["a{b{c}d}e", "abcde"],
    "\\text{Paris}": ["Paris", "\\text{Paris}"],
    "x^2 + 1": ["x^2+1", "x^{2}+1"],
}

MATH = [
    ("\\fbox{7}", "7"),
    ("\\fbox{7}", "\\fbox{7}"),
    ("\\fbox{7} and \\boxed{8}", "8"),
    ("\\boxed{8} and \\fbox{7}", "8"),
    ("\\fbox{7", "7"),
    ("$\\boxed 8$", "8"),
    ("\\boxed 8", "8"),
    ("\\boxed 8 apples", "8"),
    ("\\boxed 8 apples", "8apples"),
    ("$\\boxed 8$ or $\\boxed 9$", "9"),
    ("$\\boxed 8$ or $\\boxed{9}$", "9"),
    ("$\\boxed 8$ or $\\boxed{9}$", "8"),
    ("\\boxed {8}", "8"),
    ("\\boxed {8}", "{8}"),
    ("\\boxed $8$", "8"),
    ("\\boxed ", ""),
    ("\\boxed", ""),
    ("\\boxed \\frac1{", "\\frac{1}{"),
    ("\\boxed8", "8"),
    ("\\boxed8 {7}", "7"),
    ("\\boxed{8", "8"),
    ("\\boxed{8}} {", "8"),
    ("\\boxed}{8}", "8"),
    ("\\boxed}{8}{9}", "8"),
    ("\\boxed}{8}}", "8"),
    ("\\boxedx{8}", "8"),
    ("\\boxed{7} then \\boxed{8}", "8"),
    ("\\boxed{7} then \\boxed{8}", "7"),
    ("\\boxed{7} then \\boxed{8", "7"),
    ("\\boxed{a \\boxed{8}}", "8"),
    ("\\boxed{a \\boxed{8} b}", "8"),
    ("boxed{8}", "8"),
    ("no box: 8", "8"),
    ("", ""),
    ("\\boxed{8}" + "x" * 400, "8"),
]

STRICT = [
    ("#### 12", "12"), ("####12", "12"), ("####  12", "12"), ("#### 12.0", "12"), ("#### -7", "-7"),
    ("#### --7", "-7"), ("#### $12", "12"), ("#### 1,234", "1234"), ("#### 1,234.50", "1234.50"),
    ("#### 12.", "12."), ("#### 12.", "12"), ("#### ,", ""), ("#### .", "."), ("#### 12 #### 13", "13"),
    ("#### 12\n#### x", "12"), ("##### 12", "12"), ("### 12", "12"), ("12", "12"), ("", ""),
    ("#### +5", "5"), ("#### 5%", "5"), ("#### 12" + "x" * 293, "12"), ("#### 12" + "x" * 294, "12"),
    ("#### 12" + "\u00e9" * 293, "12"), ("#### 12" + "\u00e9" * 294, "12"), ("#### \u0661", "1"),
]

FLEXIBLE = [
    ("it is 12", "12"), ("it is 12.", "12"), ("it is 12.", "12."), ("12 .", "12"), ("12 , .", ","),
    (".", "."), (". .", "."), ("", ""), ("none", "none"), ("1,234", "1234"), ("1,234", "1,234"),
    ("10-3", "-3"), ("10-3", "3"), ("$5", "5"), ("3/4", "4"), ("-", "-"), ("5 -", "5"),
    ("12" + "x" * 298, "12"), ("12" + "x" * 299, "12"), ("12" + "\u00e9" * 298, "12"),
    ("12" + "\u00e9" * 299, "2"), ("\u0661", "1"),
]

LINES = {  # after "Answer:" -> golds
    "42": ["42", "42.0", "042"],
    " 1,000": ["1000", "1,000", "1,0,00"],
    "1,000.5": ["1000.5", "1,000.5"],
    "x = 5": ["5", "y=5", "x=5"],
    "x = y = 5": ["5"],
    "x =": [""],
    "an apple": ["apple"],
    "a car": ["car"],
    "banana": ["banan"],
    "5 square feet": ["5"],
    "5 minutes": ["5"],
    "5\\text{ m}": ["5"],
    "5\\text{ s}": ["5"],
    "5\\text{.}": ["5"],
    "5\\text{}^2": ["5"],
    "5\\text{ m}^3": ["5"],
    "1\\text{ and }2": ["12"],
    "1,\\text{ and }2": ["1,2", "12"],
    "\\mbox{m}5": ["5"],
    "5^\\circ": ["5"],
    "5^{\\circ}": ["5"],
    "5\\mathrm{th}": ["5"],
    "1,\\ldots,9": ["1,,9"],
    "1,\\dots,9": ["1,,9"],
    "1{,}000": ["1000"],
    "1,\\!000": ["1000"],
    "1\\;2": ["12"],
    '"5"': ["5"],
    "$5$": ["5", "$5$"],
    "the value $5$ holds": ["5"],
    "$5$ or $6$": ["5", "6"],
    "$5": ["5"],
    "$5.$": ["5"],
    "\\$5": ["5", "\\$5"],
    "5\\%": ["5", "5\\%"],
    "\\text{a{b}c}": ["a{bc}"],
    "\\text{\\text{x}}": ["\\text{x}"],
    "\\textbf{x}": ["x"],
    "\\overline{AB}": ["AB"],
    "\\boxed{5}": ["5"],
    "\\boxed{5} and \\boxed{6}": ["5}and\\boxed{6"],
    "\\boxed{": ["\\boxed{"],
    "\\frac12": ["\\frac{1}{2}", "1/2"],
    "\\frac123": ["\\frac{1}{2}3"],
    "\\frac{1}2": ["\\frac{1}2"],
    "\\frac1{2}": ["\\frac{1}{{}2}", "\\frac{1}{2}"],
    "\\frac1": ["\\frac1"],
    "\\frac\u03b1\u03b2": ["\\frac{\u03b1}{\u03b2}"],
    "fracfrac12": ["frac{f}{r}ac12"],
    "\\sqrt2": ["\\sqrt{2}"],
    "\\sqrt23": ["\\sqrt{2}3"],
    "\\sqrt": ["\\sqrt"],
    "\\sqrt\u03b1": ["\\sqrt{\u03b1}"],
    "\u00a0 5\u3000": ["5"],
    "5\t": ["5"],
    "[INVALID]": ["[INVALID]"],
    "": ["", "[INVALID]"],
}

DAPO = [
    ("Answer: 1\nAnswer: 2", "2"),
    ("Answer: Answer: 5", "5"),
    ("Answer: Answer: 5", "Answer:5"),
    ("answer:\n\n5\n6", "5"),
    ("ANSWER \n : 5", "5"),
    ("An\u017fwer: 5", "5"),
    ("AnsweR\u00a0:\u20035", "5"),
    ("Answer 5", "5"),
    ("Answer: ", ""),
    ("Answer: 1\nAnswer: ", "1"),
    ("Answer: 1\nAnswer:\n", "1"),
    ("Answer:\n \n", ""),
    ("the answers: 5", "5"),
    ("the answer is 5", "5"),
    ("the answer is 5", "[INVALID]"),
    ("\\boxed{9}", "9"),
    ("\\boxed{9} \\boxed{8", "9"),
    ("\\boxed{\\frac12} end", "\\frac{1}{2}"),
    ("\\boxed 9", "9"),
    ("\\fbox{9}", "9"),
    ("\\boxed{9} Answer: 8", "9"),
    ("\\boxed{9} Answer: 8", "8"),
    ("\\boxed{a\\text{\n}b}", "ab"),
    ("\\boxed{$1$\n$2$}", "12"),
    ("\\boxed{$1$\n$2$}", "1\n2"),
    ("\\boxed{\\text{a\nb}}", "\\text{a\nb}"),
    ("\\boxed{\\frac1\n}", "\\frac1"),
    ("\\boxed{\\frac\n12}", "\\frac{\n}{1}2"),
    ("Answer: 5", "\\text{\ns}5"),
    ("Answer: 5" + "x" * 291, "5" + "x" * 291),
    ("Answer: 5" + "x" * 292, "5" + "x" * 292),
    ("Answer: 5" + "\u00e9" * 291, "5" + "\u00e9" * 291),
]

PIECES = [
    "\\boxed{", "\\boxed ", "\\boxed", "\\fbox{", "}", "}", "}", "{", "$", "$", "\\$", "\\frac", "\\tfrac",
    "\\dfrac", "\\sqrt", "\\text{", "\\text{ ", "\\left", "\\right", "^\\circ", "^{\\circ}", "\\%", "%",
    "\\\\", "\\!", "\n", " ", " ", "=", "/", ".", ",", "-", "0", "1", "2", "5", "7", "12", "0.5", "x", "y",
    "ab", "\u03b1", "\u00e9", "#### ", "####", "Answer:", "answer :", "Answer", ":", "an ", "a ", "and",
    "mbox", "square", "cm", "m", "s}", "\\textbf{", "\\overline{", "\\ldots", "\\;", "{,}", '"', "\t",
    "\u00a0", "\\mathrm{th}", "frac", "sqrt", "#", "(", ")",
]


def load(directory, name):
    spec = importlib.util.spec_from_file_location(name, "%s/%s.py" % (directory, name))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random_text(r, most):
    return "".join(r.choice(PIECES) for _ in range(r.randint(1, most)))


def random_cases(count):
    r = random.Random(1)
    for i in range(count):
        method = ("math", "math", "dapo", "strict", "flexible")[i % 5]
        text = gold = random_text(r, 8)
        if method == "math":
            text = r.choice(["\\boxed{%s}", "\\boxed{%s}", "\\boxed %s", "%s"]) % text
        if method == "dapo":
            text = r.choice(["Answer: %s", "%s", "\\boxed{%s}"]) % text
        if r.random() < 0.7:  # something that may be the same answer
            gold = gold.replace(r.choice(PIECES), r.choice(PIECES + ["", "", ""]))
        if r.random() < 0.3:
            text = random_text(r, 4) + text
        if r.random() < 0.3:
            text = text + random_text(r, 4)
        yield method, text, gold


def cases(count):
    for content, golds in BOXED.items():
        for gold in golds:
            yield "math", "\\boxed{%s}" % content, gold
            yield "math", "\\boxed{%s}" % gold, content
    for method, table in (("math", MATH), ("strict", STRICT), ("flexible", FLEXIBLE), ("dapo", DAPO)):
        for text, gold in table:
            yield method, text, gold
    for line, golds in LINES.items():
        for gold in golds:
            yield "dapo", "Answer:" + line, gold
    yield from random_cases(count)


def main():
    directory, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300
    gsm8k, math, dapo = (load(directory, name) for name in ("gsm8k", "math_reward", "math_dapo"))
    for method, text, gold in cases(count):
        extracted = None
        with contextlib.redirect_stdout(io.StringIO()):  # math_reward prints its exceptions
            if method == "math":
                score = math.compute_score(text, gold)
                extracted = math.last_boxed_only_string(text)
            elif method == "dapo":
                result = dapo.compute_score(text, gold)
                score = result["score"]
                extracted = result["pred"]
            else:
                score = gsm8k.compute_score(text, gold, method)
                extracted = gsm8k.extract_solution(text, method)
        print(json.dumps([method, text, gold, score, extracted]))


if __name__ == "__main__":
    main()
