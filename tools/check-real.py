"""check-real.py DIR ... : what tools/check-real.lua wrote to each DIR, held to transformers and PEFT.

Ids of the texts, rendered chats, logits of the first prompts from the dequantised file, and greedy continuations of every
exported directory.  A continuation is checked with one forward: each of our tokens must have the largest logit after the
prompt and those before it.  Where another one is larger, its lead is reported; a lead below TIE is a tie of rounding.
A line per comparison; exit status 1 if one fails.
"""
import json
import os
import sys

import numpy
import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

TIE = 2e-3  # between logits that both are sums of float32 in other orders
LOGITS = 2e-3
failed = 0


def say(good, what, figures):
    global failed
    failed += not good
    print("%s - %s: %s" % ("ok" if good else "not ok", what, figures), flush=True)


def same_ids_as_file(name, case, tokenizer):
    """transformers' own reading of the GGUF file knows less than the file says, in two ways that are named here."""
    def differing():
        return [t for t, ids in zip(case["texts"], case["ids"]) if
                tokenizer(t, add_special_tokens=False, split_special_tokens=True)["input_ids"] != ids]
    backend = tokenizer.backend_tokenizer
    before = len(differing())
    if "ByteLevel" in str(backend.pre_tokenizer):
        # The file names the pre-tokenizer "smollm", which splits digits first; transformers drops that.
        backend.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        after, why = differing(), "with its digits split first"
    else:
        # U+2581 stands for a space within tokens; a text that has this character itself is read in two ways.
        after, why = [t for t in differing() if "\u2581" not in t], "without texts that hold U+2581"
    total = len(case["texts"])
    say(not after, name + " ids, transformers", "%d of %d texts, %s %d differ" % (total - before, total, why, len(after)))


def tokens(name, case, tokenizer):
    differ = [i for i, t in enumerate(case["texts"]) if
              tokenizer(t, add_special_tokens=False, split_special_tokens=True)["input_ids"] != case["ids"][i]]
    say(not differ, name + " ids, transformers", "%d of %d texts" % (len(case["texts"]) - len(differ), len(case["texts"])))
    for i in differ[:5]:
        print("#   %r\n#     %s\n#     %s" % (case["texts"][i], case["ids"][i], tokenizer(
            case["texts"][i], add_special_tokens=False, split_special_tokens=True)["input_ids"]))
    differ = [i for i, ids in enumerate(case["ids"]) if
              tokenizer.decode(ids, clean_up_tokenization_spaces=False) != case["decoded"][i]]
    say(not differ, name + " texts of ids, transformers", "%d of %d" % (len(case["ids"]) - len(differ), len(case["ids"])))
    for i in differ[:3]:
        print("#   %r, we say %r" % (tokenizer.decode(case["ids"][i]), case["decoded"][i]))


def chats(name, case, tokenizer):
    good = 0
    for c in case["chats"]:
        text = tokenizer.apply_chat_template(c["messages"], tokenize=False,
                                             add_generation_prompt=c["generation_prompt"])
        same = text == c["text"] and tokenizer(text, add_special_tokens=False)["input_ids"] == c["ids"]
        good += same
        if not same:
            print("#   %r, we say %r" % (text, c["text"]))
    if case["chats"]:
        say(good == len(case["chats"]), name + " chats, transformers", "%d of %d" % (good, len(case["chats"])))


@torch.no_grad()
def logits(name, case, folder, model):
    width, at, worst, same, rows = model.config.vocab_size, 0, 0.0, 0, 0
    ours = numpy.fromfile(os.path.join(folder, "logits.f32"), dtype="<f4").reshape(-1, width)
    for i, n in enumerate(case["logit_rows"]):
        theirs = model(torch.tensor([case["prompt_ids"][i]])).logits[0].numpy()
        part = ours[at:at + n]
        worst = max(worst, float(numpy.abs(theirs - part).max()))
        same += int((theirs.argmax(1) == part.argmax(1)).sum())
        at, rows = at + n, rows + n
    say(worst <= LOGITS and same == rows, name + " logits, transformers",
        "%d rows of %d, within %.1e, %d of %d largest" % (rows, width, worst, same, rows))


@torch.no_grad()
def continuations(what, case, greedy, model):
    total, same, ties, parted, worst = 0, 0, 0, 0, 0.0
    for prompt, ids in zip(case["prompt_ids"], greedy):
        if not ids:
            continue
        rows = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1:-1]
        lead = (rows.max(1).values - rows.gather(1, torch.tensor(ids)[:, None])[:, 0]).numpy()
        total += len(ids)
        same += int((lead == 0).sum())
        ties += int(((lead > 0) & (lead <= TIE)).sum())
        parted += int((lead > 0).any())
        worst = max(worst, float(lead.max()))
    say(same + ties == total, what, "%d prompts, %d of %d tokens%s" % (
        len(greedy), same, total, "" if same == total else ", %d ties, %d part, lead %.1e" % (ties, parted, worst)))


def check(folder):
    with open(os.path.join(folder, "case.json"), encoding="utf-8") as f:
        case = json.load(f)
    name, (where, file) = os.path.basename(folder), os.path.split(case["file"])
    exported = AutoTokenizer.from_pretrained(os.path.join(folder, "hf"))
    tokens(name + " exported", case, exported)
    chats(name + " exported", case, exported)
    model = AutoModelForCausalLM.from_pretrained(where, gguf_file=file, dtype=torch.float32)
    logits(name, case, folder, model)
    continuations(name + " continuations, transformers on the GGUF file", case, case["greedy"], model)
    for e in case["exports"]:
        path = os.path.join(folder, e["path"])
        if e["name"] in ("hf", "merged"):
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        elif e["name"] == "adapter":
            from peft import PeftModel
            base = AutoModelForCausalLM.from_pretrained(os.path.join(folder, "hf"), dtype=torch.float32)
            model = PeftModel.from_pretrained(base, path)
        else:
            continue
        continuations("%s %s, %s" % (name, e["name"], "PEFT" if e["name"] == "adapter" else "transformers"), case,
                      e["greedy"], model)
    same_ids_as_file(name + " GGUF", case, AutoTokenizer.from_pretrained(where, gguf_file=file))


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for folder in sys.argv[1:]:
        check(folder)
    return 1 if failed else 0


sys.exit(main())
