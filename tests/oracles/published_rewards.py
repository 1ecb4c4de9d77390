"""Writes tests/cases/rewards/published.jsonl: texts and what published rewards give them.

    python3 tests/oracles/published_rewards.py > tests/cases/rewards/published.jsonl

The rewards are written here again from their descriptions.  A line is [reward, text, value], and
of a reward that compares with a gold answer [reward, text, value, gold].

- xml_count: an eighth for each of four pieces that occurs once, in a text of the form
  <reasoning>\\n...\\n</reasoning>\\n<answer>\\n...\\n</answer>; the last two pieces cost a
  thousandth for each character after the closing tag.
- incremental: a quarter for each of four tags that is there; what follows the closing tag costs
  a thousandth a character, if that tag occurs once.  incremental_eighths: an eighth each, and
  what follows the last closing tag costs, however often it occurs.
- correct, integer, layout, nothing_after: those of a notebook that trains on GSM8K.
"""

import json
import re

END = "</answer>"


def xml_count(text):
    score = 0.0
    for piece in ("<reasoning>\n", "\n</reasoning>\n"):
        if text.count(piece) == 1:
            score = score + 0.125
    if text.count("\n<answer>\n") == 1:
        rest = text.split("\n" + END + "\n").pop()
        score = score + 0.125
        score = score - 0.001 * len(rest)
    if text.count("\n" + END) == 1:
        rest = text.split("\n" + END).pop()
        score = score + 0.125
        score = score - 0.001 * (len(rest) - 1)
    return score


def share_of_tags(text, share, closing_tags_that_cost):
    score = 0.0
    for tag in ("<reasoning>", "</reasoning>", "<answer>", END):
        score = score + (share if tag in text else 0.0)
    if closing_tags_that_cost(text.count(END)):
        score = score - 0.001 * len(text.split(END).pop().strip())
    return score


def incremental(text):
    return share_of_tags(text, 0.25, lambda times: times == 1)


def incremental_eighths(text):
    return share_of_tags(text, 0.125, lambda times: times > 0)


def without_plus_and_zeros(digits):
    return digits.lstrip("+").lstrip("0")


def correct(text, gold):
    given = re.search(r"(?is)<answer>\s*([+-]?\d+)\s*</answer>", text)
    wanted = re.search(r"####\s*([+-]?\d+)", gold)
    if not given or not wanted:
        return 0.0
    return float(without_plus_and_zeros(given[1]) == without_plus_and_zeros(wanted[1]))


def integer(text):
    given = re.search(r"(?is)<answer>\s*(.*?)\s*</answer>", text)
    return 1.0 if given and re.fullmatch(r"[+-]?\d+", given[1].strip()) else -1.0


def layout(text):
    form = r"(?s)<thinking>\n.*?\n</thinking>\n<answer>\n.*?\n</answer>"
    return 1.0 if re.fullmatch(form, text) else -1.0


def nothing_after(text):
    _, tag, rest = text.partition(END)
    return 0.0 if tag and not rest.strip() else -0.5


def form(thought, answer, end=""):
    return f"<reasoning>\n{thought}\n</reasoning>\n<answer>\n{answer}\n</answer>{end}"


FORM_TEXTS = [
    form("5 + 3", "8"),
    form("5 + 3", "8", "\n"),
    form("5 + 3", "8", "\n\n"),
    form("5 + 3", "8", " "),
    form("5 + 3", "8", " \t\n"),
    form("5 + 3", "8", " so it is 8"),
    form("5 + 3", "8", "\nso it is 8"),
    form("5 + 3", "8", "\nso it is 8\n"),
    form("5 + 3", "8", "\n  so it is 8  "),
    form("5 + 3", "8", "\u00e9\u00e9 caf\u00e9"),
    form("5 + 3", "8", "\u00a0\u2003"),
    form("5 + 3", "8", "\u3000x\u0085"),
    form("5 + 3", "8", "\x1c\x1f"),
    form("5 + 3", "8", "\u200b"),
    form("5 + 3", "8", "\n" + "x" * 300),
    form("5 + 3", "8", "x" * 1200),
    form("two\nlines", "8"),
    form("", ""),
    form("", "", "\n"),
    form("a", "b") + form("a", "b"),
    form("a", "b") + "\n" + form("a", "b"),
    form("a", "b", "\n") + "\n" + form("a", "b", "\n"),
    form(form("a", "b"), "c"),
    form("a", "b") + "\n</answer>",
    form("a", "b") + "\n</answer>\n",
    form("a", "b", "\n") + "</answer>\n",
    form("a", "b", "\n\n</answer>\n\n</answer>\n"),
    "<reasoning>\n<reasoning>\nx\n</reasoning>\n<answer>\n7\n</answer>",
    "<reasoning>\nx\n</reasoning>\n</reasoning>\n<answer>\n7\n</answer>",
    "<reasoning>\nx\n</reasoning>\n<answer>\n<answer>\n7\n</answer>",
    "<reasoning>\nx\n</reasoning>\n<answer>\n\n<answer>\n7\n</answer>",
    "<reasoning>x</reasoning><answer>7</answer>",
    "<reasoning>x</reasoning> <answer>7</answer> done",
    "<reasoning> x </reasoning>\n<answer> 7 </answer>\n",
    "<reasoning>\nx\n</reasoning>\n",
    "<reasoning>\nx\n</reasoning>",
    "<reasoning>\n",
    "<reasoning>",
    "\n</reasoning>\n",
    "\n<answer>\n",
    "<answer>\n7\n</answer>",
    "\n<answer>\n7\n</answer>\n",
    "\n<answer>\n7",
    "7\n</answer>",
    "7\n</answer>\n",
    "7\n</answer>  ",
    "</answer>",
    "</answer></answer>",
    "</answer></answer> and more",
    "</answer> and more",
    "<answer></answer>",
    "<ANSWER>\n7\n</ANSWER>",
    "<REASONING>\nx\n</REASONING>\n<ANSWER>\n7\n</ANSWER>\n",
    "\n<answer>\n7\n</ answer>\n",
    "\r\n<answer>\r\n7\r\n</answer>\r\n",
    "I think it is 7",
    "",
    " ",
    "\n",
    "<answer>\n7\n</answer>\n<reasoning>\nx\n</reasoning>\n",
    "\n<answer>\n7\n</answer>\n<reasoning>\nx\n</reasoning>\n",
    "before " + form("x", "7", "\n") + " after",
]

MATHS = "<thinking>\n{}\n</thinking>\n<answer>\n{}\n</answer>"

MATHS_TEXTS = [
    (MATHS.format("6 * 7", "42"), "6 * 7 #### 42"),
    (MATHS.format("6 * 7", "+42"), "#### 42"),
    (MATHS.format("6 * 7", "-42"), "#### 42"),
    (MATHS.format("6 * 7", "-42"), "#### -42"),
    (MATHS.format("6 * 7", "42."), "#### 43"),
    (MATHS.format("6 * 7", "042"), "#### 42"),
    (MATHS.format("6 * 7", " 42 "), "#### 42"),
    (MATHS.format("6 * 7", "forty-two"), "#### 42"),
    (MATHS.format("6 * 7", ""), "#### 42"),
    (MATHS.format("6 * 7", "4 2"), "#### 42"),
    (MATHS.format("6 * 7", "--42"), "#### 42"),
    (MATHS.format("6 * 7", "+ 42"), "#### 41"),
    (MATHS.format("two\nlines", "42"), "#### 42"),
    (MATHS.format("6 * 7", "42") + "\n", "#### 42"),
    (MATHS.format("6 * 7", "42") + " \n ", "#### 42"),
    (MATHS.format("6 * 7", "42") + " so 42", "#### 42"),
    (" " + MATHS.format("6 * 7", "42"), "#### 42"),
    ("<answer>1</answer><answer>42</answer>", "#### 42"),
    ("<answer>42</answer><answer>1</answer>", "#### 42"),
    ("<answer>1</answer>\n<answer>42</answer>\n", "#### 1"),
    ("<answer>42</answer> <answer>x</answer>", "#### 42"),
    ("<answer>42</answer>", "#### 42"),
    ("<ANSWER>42</ANSWER>", "#### 42"),
    ("<Answer>42</answer>", "#### 42"),
    ("<answer>42</ANSWER>", "#### 42"),
    ("<ANSWER>1</ANSWER><answer>42</answer>", "#### 42"),
    ("<THINKING>\nx\n</THINKING>\n<ANSWER>\n42\n</ANSWER>", "#### 42"),
    ("<answer>42", "#### 42"),
    ("42</answer>", "#### 42"),
    ("</answer><answer>42</answer>", "#### 42"),
    ("42", "#### 42"),
    ("", "#### 42"),
    ("<answer></answer>", "#### 42"),
    ("<answer></answer><answer></answer>", "#### 42"),
    ("<answer> \n</answer>\n\n", "#### 42"),
    (MATHS.format("6 * 7", "0"), "#### 0"),
    (MATHS.format("6 * 7", "1000000"), "#### 1000000"),
    # the four that the rewards here judge in another way, which the test names
    (MATHS.format("6 * 7", "1,234"), "#### 1234"),
    (MATHS.format("6 * 7", "<answer>\n42\n</answer>"), "#### 42"),
    ("<answer>x</answer><answer>42</answer>", "#### 42"),
    (MATHS.format(MATHS.format("6 * 7", "42"), "42"), "#### 42"),
]


def show(*line):
    print(json.dumps(line, ensure_ascii=True))


for text in FORM_TEXTS:
    for reward in (xml_count, incremental, incremental_eighths):
        show(reward.__name__, text, reward(text))
for text, gold in MATHS_TEXTS:
    show("correct", text, correct(text, gold), gold)
    for reward in (integer, layout, nothing_after):
        show(reward.__name__, text, reward(text))
