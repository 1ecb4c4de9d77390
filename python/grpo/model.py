"""A language model with its tokenizer: generate, score, save."""
from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Mapping, NamedTuple, Sequence, Union

from . import _abi
from ._library import Context, Owner, file_of, lib, options

Messages = Sequence[Mapping[str, Any]]
Prompt = Union[str, Messages]  # text, or a conversation for the chat template


class Completion(NamedTuple):
    """What a model wrote after a prompt."""

    text: str
    ids: list[int]
    logprobs: list[float]  # of each id, at the sampling temperature
    finish: str  # "eos", "stop" or "length"
    prompt: int  # position of its prompt


def text_of(sample: Any) -> str:
    return ctypes.string_at(sample.text, sample.text_length).decode("utf-8", "replace") if sample.text else ""


def _growing(context: Context, call: Any, element: Any) -> Any:
    """What a function writes that is first asked for the length."""
    count = ctypes.c_size_t()
    context.check(call(None, 0, ctypes.byref(count)))
    out = (element * (count.value + 1))()
    context.check(call(out, count.value + 1, ctypes.byref(count)))
    return out[: count.value]


def _text(context: Context, call: Any) -> str:
    return str(_growing(context, call, ctypes.c_char), "utf-8", "replace")


class Model(Owner):
    """`path`: a directory in Hugging Face layout, a GGUF file, a run, a checkpoint, an adapter, a name in the Hub's cache.

    `chat_template` takes the place of the tokenizer's own: a Jinja text, or the name of one such as "chatml".
    """

    chat_template: str | None = None
    _path: Any = "random weights"

    def __init__(self, path: str | os.PathLike[str], *, storage: str = "f32", threads: int = 0) -> None:
        self._context = Context(threads)
        o = options(_abi.grpo_model_options)
        o.storage = storage.encode()
        file, self._path = file_of(path, "path"), path
        self._model = self._context.make(lib.grpo_model_load, self._context.handle, file, ctypes.byref(o))
        self._tokenizer = self._context.make(lib.grpo_tokenizer_load, self._context.handle, file)

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str], **options_: Any) -> Model:
        """The same as Model(path), under transformers' name."""
        return cls(path, **options_)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, characters: str | None = None, seed: int = 0,
                    threads: int = 0) -> Model:
        """Random weights of this config.json; the tokens are these characters, or bytes."""
        self = cls.__new__(cls)
        self._context = context = Context(threads)
        if characters is None:
            self._tokenizer = context.make(lib.grpo_tokenizer_bytes, context.handle)
        else:
            text = characters.encode()
            self._tokenizer = context.make(lib.grpo_tokenizer_chars, context.handle, text, len(text))
        o = options(_abi.grpo_model_options)
        o.seed = seed
        self._model = context.make(lib.grpo_model_new, context.handle, json.dumps(dict(config)).encode(),
                                   self._tokenizer, ctypes.byref(o))
        return self

    def __del__(self) -> None:
        for name, free in (("_model", lib.grpo_model_free), ("_tokenizer", lib.grpo_tokenizer_free)):
            if getattr(self, name, None):
                free(getattr(self, name))
                setattr(self, name, ctypes.c_void_p())

    def __repr__(self) -> str:
        return f"Model({self._path!r})"

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids; special: with the tokenizer's own begin and end tokens."""
        data, flags = text.encode(), _abi.GRPO_ADD_SPECIAL if special else 0
        return list(_growing(self._context, lambda out, n, count: lib.grpo_tokenizer_encode(
            self._tokenizer, data, len(data), flags, out, n, count), ctypes.c_int32))

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of token ids; skip_special: without the begin and end tokens and their like."""
        array = (ctypes.c_int32 * len(ids))(*ids)
        return _text(self._context, lambda out, n, count: lib.grpo_tokenizer_decode(
            self._tokenizer, array, len(ids), skip_special, out, n, count))

    def chat(self, messages: Messages, **template: Any) -> str:
        """The text that the chat template makes of a conversation; template: tools, vars, chat_template and the like."""
        data = json.dumps(list(messages)).encode()
        own = {"chat_template": self.chat_template} if self.chat_template else {}
        settings = json.dumps({"generation_prompt": True, **own, **template}).encode()
        return _text(self._context, lambda out, n, count: lib.grpo_tokenizer_chat(
            self._tokenizer, data, settings, out, n, count))

    def _prompt_ids(self, prompt: Prompt) -> list[int]:
        if not isinstance(prompt, str) and not (isinstance(prompt, (list, tuple)) and all(isinstance(m, Mapping) for m in prompt)):
            raise TypeError(f"a prompt is a {type(prompt).__name__}, because only a text or a list of messages is one; a "
                            "conversation by itself goes into a list: [messages]")
        return self.encode(prompt, special=True) if isinstance(prompt, str) else self.encode(self.chat(prompt))

    def generate(self, prompts: str | Sequence[Prompt], *, max_new_tokens: int = 256, temperature: float = 1.0,
                 top_p: float = 1.0, top_k: int = 0, min_p: float = 0.0, num_return_sequences: int = 1,
                 repetition_penalty: float = 1.0, stop: str | Sequence[str] = (), seed: int = 0) -> list[Completion]:
        """Completions of each prompt, one prompt after another; temperature 0 is greedy.

        A conversation is a list of messages, so that a list with one conversation is [messages].  The same seed draws
        the same completions.  `finish` of each is "eos", "stop" or "length".
        """
        for name, value in (("max_new_tokens", max_new_tokens), ("num_return_sequences", num_return_sequences)):
            if not 1 <= value < 2**31:
                raise ValueError(f"generate: {name} is {value}, because nothing would be sampled or too much; give 1 or more")
        stop = [stop] if isinstance(stop, str) else list(stop)
        encoded = [self._prompt_ids(p) for p in ([prompts] if isinstance(prompts, str) else prompts)]
        arrays = [(ctypes.c_int32 * len(ids))(*ids) for ids in encoded]
        rows = (_abi.grpo_prompt * len(arrays))(*[_abi.grpo_prompt(a, len(a), i) for i, a in enumerate(arrays)])
        o = options(_abi.grpo_sampling)
        o.max_new_tokens, o.temperature, o.top_p, o.top_k, o.min_p = max_new_tokens, temperature, top_p, top_k, min_p
        o.n, o.repetition_penalty, o.seed = num_return_sequences, repetition_penalty, seed
        o.stop, o.stops = (ctypes.c_char_p * len(stop))(*[s.encode() for s in stop]), len(stop)
        samples = self._context.make(lib.grpo_generate, self._model, self._tokenizer, rows, len(rows), ctypes.byref(o))
        try:
            return [self._completion(samples, i) for i in range(lib.grpo_samples_count(samples))]
        finally:
            lib.grpo_samples_free(samples)

    def _completion(self, samples: ctypes.c_void_p, i: int) -> Completion:
        s = _abi.grpo_sample(size=ctypes.sizeof(_abi.grpo_sample))
        self._context.check(lib.grpo_samples_at(samples, i, ctypes.byref(s)))
        return Completion(text_of(s), s.ids[: s.length], s.logprobs[: s.length], s.finish.decode(), s.prompt)

    def score(self, prompts: str | Sequence[Prompt], completions: str | Sequence[str]) -> list[list[float]]:
        """Log-probabilities at temperature 1 of the tokens of each completion after its prompt."""
        prompts = [prompts] if isinstance(prompts, str) else prompts
        completions = [completions] if isinstance(completions, str) else completions
        if len(prompts) != len(completions):
            raise ValueError(f"score: there are {len(prompts)} prompts and {len(completions)} completions, because a "
                             "completion belongs to a prompt; give as many of both")
        return [self._score(p, text) for p, text in zip(prompts, completions)]

    def _score(self, prompt: Prompt, completion: str) -> list[float]:
        before, after = self._prompt_ids(prompt), self.encode(completion)
        if not before or not after:
            return []
        ids = (ctypes.c_int32 * (len(before) + len(after)))(*before, *after)
        out = (ctypes.c_float * (len(ids) - 1))()
        self._context.check(lib.grpo_model_logprobs(self._model, ids, len(ids), out, len(out)))
        return out[len(before) - 1 :]

    def save_pretrained(self, path: str | os.PathLike[str], *, format: str | None = None, dtype: str | None = None,
                        merge: bool = False) -> None:
        """Writes what transformers and PEFT read, or GGUF: an adapter alone, unless it is merged, else all weights."""
        o = options(_abi.grpo_export_options)
        o.format, o.dtype = format and format.encode(), dtype and dtype.encode()
        o.merge, o.tokenizer = merge, self._tokenizer
        self._context.call(lib.grpo_model_export, self._model, file_of(path, "path"), ctypes.byref(o))
