"""TRL's settings by their names."""
from __future__ import annotations

import math
import os
from typing import Any, Dict, Mapping, Sequence

from ._library import file_of


# settings that ask for what is so here anyway
_ALWAYS = {"use_cpu": True, "no_cuda": True, "do_train": True, "disable_tqdm": True, "bias": "none", "inference_mode": False}


def _given(settings: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None and _ALWAYS.get(name, ...) != value}


class Config:
    """The settings of a run, as in TRL's GRPOConfig.

    Any name of TRL's and transformers' may be given, not only those that are written out here.  A name that has no
    equivalent is refused when training begins, with the reason.  What is not given has grpo's default, and reading it
    raises AttributeError.  `options` are options of grpo that TRL does not have, by their paths:
    {"train.overlong.buffer": 16}.
    """

    output_dir: str
    threads: int
    options: Dict[str, Any]
    reward_weights: Sequence[float] | None
    settings: Dict[str, Any]

    def __init__(
        self,
        output_dir: str | os.PathLike[str] = "runs",
        *,
        # the run
        max_steps: int | None = None,
        num_train_epochs: float | None = None,
        seed: int | None = None,
        shuffle_dataset: bool | None = None,
        logging_steps: int | None = None,
        save_steps: int | None = None,
        save_total_limit: int | None = None,
        eval_strategy: str | None = None,
        eval_steps: int | None = None,
        # sampling
        num_generations: int | None = None,
        per_device_train_batch_size: int | None = None,
        gradient_accumulation_steps: int | None = None,
        generation_batch_size: int | None = None,
        max_prompt_length: int | None = None,
        max_completion_length: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        top_k: int | None = None,
        min_p: float | None = None,
        repetition_penalty: float | None = None,
        generation_kwargs: Mapping[str, Any] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        # the loss
        loss_type: str | None = None,
        beta: float | None = None,
        epsilon: float | None = None,
        epsilon_high: float | None = None,
        delta: float | None = None,
        num_iterations: int | None = None,
        importance_sampling_level: str | None = None,
        scale_rewards: bool | str | None = None,
        reward_weights: Sequence[float] | None = None,
        mask_truncated_completions: bool | None = None,
        # the optimizer
        learning_rate: float | None = None,
        lr_scheduler_type: str | None = None,
        lr_scheduler_kwargs: Mapping[str, Any] | None = None,
        warmup_steps: int | None = None,
        warmup_ratio: float | None = None,
        optim: str | None = None,
        weight_decay: float | None = None,
        adam_beta1: float | None = None,
        adam_beta2: float | None = None,
        max_grad_norm: float | None = None,
        gradient_checkpointing: bool | None = None,
        bf16: bool | None = None,
        # grpo's own
        threads: int = 0,
        options: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        given = dict(locals())
        for name in ("self", "others", "output_dir", "threads", "options", "reward_weights"):
            del given[name]
        self.settings = {}
        self.output_dir = os.fsdecode(file_of(output_dir, "output_dir"))
        self.threads, self.options, self.reward_weights = threads, dict(options or {}), reward_weights
        for name, value in {**given, **others}.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in Config.__annotations__:
            super().__setattr__(name, value)
        elif name == "generation_kwargs":
            for key, one in (value or {}).items():
                if key in ("stop", "stop_strings"):
                    self.options["sampling.stop"] = [one] if isinstance(one, str) else list(one)
                else:
                    setattr(self, key, one)
        else:
            if name == "report_to" and isinstance(value, (list, tuple)) and len(value) < 2:
                value = value[0] if value else "none"
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"the setting {name} is {value}, because a calculation before it failed; give a finite number")
            self.settings.pop(name, None)
            self.settings.update(_given({name: value}))

    def __repr__(self) -> str:
        given = {"output_dir": self.output_dir, **self.settings, **({"options": self.options} if self.options else {})}
        return "Config(" + ", ".join(f"{name}={value!r}" for name, value in given.items()) + ")"

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("settings", {})
        if name in settings:
            return settings[name]
        raise AttributeError(f"the setting {name} is not given")


class LoraConfig:
    """An adapter, as in PEFT's LoraConfig; another name of PEFT's is refused when training begins, if it has no equivalent."""

    def __init__(self, r: int = 8, lora_alpha: float = 8, lora_dropout: float = 0.0,
                 target_modules: str | Sequence[str] | None = None, **others: Any) -> None:
        if str(others.get("task_type")).split(".")[-1] == "CAUSAL_LM":
            del others["task_type"]
        self.settings: Dict[str, Any] = {"use_peft": True, "lora_r": r, "lora_alpha": lora_alpha,
                                         "lora_dropout": lora_dropout, **_given(others)}
        if target_modules is not None:
            self.settings["lora_target_modules"] = target_modules if isinstance(target_modules, str) else list(target_modules)

    def __repr__(self) -> str:
        return "LoraConfig(" + ", ".join(f"{name}={value!r}" for name, value in self.settings.items()) + ")"
