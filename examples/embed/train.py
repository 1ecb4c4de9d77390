"""train.c in Python, with nothing but ctypes: a tiny model learns to repeat the letter it is shown.

    python3 train.py [steps] [path of libgrpo.so]
"""
import ctypes as c
import ctypes.util
import sys

GRPO_OK, GRPO_ESCRIPT = 0, 10
LETTERS = b"abcdefgh"
CONFIG = b"""{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
  "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32,
  "initializer_range": 0.1}"""


class Prompt(c.Structure):
    _fields_ = [("ids", c.POINTER(c.c_int32)), ("length", c.c_size_t), ("index", c.c_uint32), ("reserved", c.c_uint32)]


class Sample(c.Structure):
    _fields_ = [("size", c.c_size_t), ("text", c.c_char_p), ("text_length", c.c_size_t),
                ("ids", c.POINTER(c.c_int32)), ("logprobs", c.POINTER(c.c_float)), ("length", c.c_size_t),
                ("finish", c.c_char_p), ("prompt_text", c.c_char_p), ("prompt", c.c_int64), ("index", c.c_int64),
                ("step", c.c_int64), ("row", c.c_void_p)]


class Sampling(c.Structure):
    _fields_ = [("size", c.c_size_t), ("max_new_tokens", c.c_int32), ("n", c.c_int32), ("temperature", c.c_double),
                ("top_p", c.c_double), ("min_p", c.c_double), ("top_k", c.c_int32), ("step", c.c_uint32),
                ("repetition_penalty", c.c_double), ("seed", c.c_uint64), ("stop", c.c_void_p), ("stops", c.c_size_t),
                ("stop_regex", c.c_char_p)]


class TrainerOptions(c.Structure):
    _fields_ = [("size", c.c_size_t)] + [(name, c.c_int32) for name in (
        "prompts_per_step", "group_size", "max_prompt_tokens", "max_new_tokens", "micro_batch_tokens",
        "gradient_checkpointing", "reuse_rollout", "examples")] + [(name, c.c_double) for name in (
            "beta1", "beta2", "eps", "weight_decay")] + [("optimizer", c.c_char_p)]


class UpdateOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("loss", c.c_void_p), ("lr", c.c_double), ("max_grad_norm", c.c_double),
                ("iterations", c.c_int32), ("skip_zero_std_groups", c.c_int32), ("seed", c.c_uint64),
                ("step", c.c_uint64)]


REWARD = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(Sample), c.POINTER(c.c_double))


@REWARD
def repeats(_, sample, reward):
    """The share of the letters wanted that are the prompt's; an exception must not leave a callback."""
    try:
        s = sample.contents
        reward[0] = s.text.count(LETTERS[s.prompt]) / 8
        return GRPO_OK
    except Exception:
        return GRPO_ESCRIPT


def main(steps, path):
    lib = c.CDLL(path)
    lib.grpo_message.restype = c.c_char_p
    context = c.c_void_p()

    def check(status):
        if status != GRPO_OK:
            raise RuntimeError(lib.grpo_message(context).decode())

    def options(kind, init):
        o = kind()
        check(init(c.byref(o), c.c_size_t(c.sizeof(o))))
        return o

    tokenizer, model, trainer = c.c_void_p(), c.c_void_p(), c.c_void_p()
    check(lib.grpo_context_new(None, c.byref(context)))
    check(lib.grpo_tokenizer_chars(context, LETTERS, c.c_size_t(len(LETTERS)), c.byref(tokenizer)))
    check(lib.grpo_model_new(context, CONFIG, tokenizer, None, c.byref(model)))
    o = options(TrainerOptions, lib.grpo_trainer_options_init)  # 8 prompts, 8 completions of each
    o.max_prompt_tokens, o.max_new_tokens = 1, 8
    check(lib.grpo_trainer_new(model, None, tokenizer, c.byref(o), c.byref(trainer)))
    sampling = options(Sampling, lib.grpo_sampling_init)
    update = options(UpdateOptions, lib.grpo_update_options_init)
    update.lr = 1e-2

    ids = [(c.c_int32 * 1)(i) for i in range(8)]
    prompts = (Prompt * 8)(*[Prompt(ids[i], 1, i, 0) for i in range(8)])
    rewards = (c.c_double * 64)()
    for step in range(steps):
        sampling.step = step
        check(lib.grpo_trainer_rollout(trainer, prompts, c.c_size_t(8), c.byref(sampling)))
        check(lib.grpo_trainer_score(trainer, repeats, None))
        check(lib.grpo_trainer_rewards(trainer, rewards, c.c_size_t(64)))
        check(lib.grpo_trainer_advantages(trainer, None, None, c.c_size_t(0)))
        check(lib.grpo_trainer_update(trainer, c.byref(update), None))
        if step % 10 == 9:
            print(f"step {step + 1:3d}: reward {sum(rewards) / 64:.3f}")
    lib.grpo_trainer_free(trainer)
    lib.grpo_model_free(model)
    lib.grpo_tokenizer_free(tokenizer)
    lib.grpo_context_free(context)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60,
         sys.argv[2] if len(sys.argv) > 2 else ctypes.util.find_library("grpo") or "libgrpo.so.1")
