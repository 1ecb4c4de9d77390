"""GRPO with rewards in Python, in the manner of TRL's GRPOTrainer."""
from __future__ import annotations

import ctypes
import dataclasses
import glob
import json
import math
import numbers
import os
import pkgutil
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Union

from . import _abi
from ._library import Context, file_of, lib, logger, options
from .config import Config, LoraConfig
from .model import Completion, Model, Prompt, text_of

# prompts, completions and the columns of the rows by name; None: the reward does not apply
Reward = Callable[..., Sequence[Optional[float]]]
Metrics = Dict[str, float]


@dataclasses.dataclass
class State:
    """How far the training is."""

    log_history: List[Metrics]  # of every step, and of every evaluation with names that begin with eval_
    directory: str = ""  # of the run
    global_step: int = 0


class TrainOutput(NamedTuple):
    """What train() returns: the steps done, the mean loss, the metrics of the last step."""

    global_step: int
    training_loss: float
    metrics: Metrics


def _refuse(given: Mapping[str, Any], instead: Mapping[str, str]) -> None:
    refused = [f"{name}: {instead.get(name, 'grpo has no such argument; remove it')}"
               for name, value in given.items() if value is not None]
    if refused:
        raise ValueError("Trainer: these arguments are refused: " + "; ".join(refused))


def _check_groups(settings: Mapping[str, Any]) -> None:
    names = ("per_device_train_batch_size", "gradient_accumulation_steps", "generation_batch_size")
    if not any(name in settings for name in names):
        return
    completions = settings.get(names[2]) or settings.get(names[0], 8) * settings.get(names[1], 1)
    group = settings.get("num_generations", 8)
    if completions % group:
        raise ValueError(f"Trainer: {completions} completions of a step are not whole groups of num_generations = {group}, "
                         f"because each prompt has one group; change num_generations or {names[0]} x {names[1]}")


def _number(value: Any, name: str, i: int) -> float:
    """A reward for the library, which takes NaN for None."""
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"the reward {name} returned {value!r:.60} for completion {i}, because that is no number; return a "
                        "number, or None where the reward does not apply") from None


def _numbers(values: Any, name: str, count: int) -> List[float]:
    """What a reward returned, as numbers."""
    if not hasattr(values, "__iter__") or isinstance(values, (str, bytes, Mapping)):
        if hasattr(values, "close"):
            values.close()  # a coroutine, which would complain that nobody awaits it
        raise TypeError(f"the reward {name} returned a {type(values).__name__}, because it is async or returns no list; return a "
                        "list with a number for each completion")
    numbers = [_number(value, name, i) for i, value in enumerate(values)]
    if len(numbers) != count:
        raise ValueError(f"the reward {name} returned {len(numbers)} numbers for {count} completions, because each "
                         "completion needs one; return None for those that it does not judge")
    return numbers


class Trainer:
    """Trains a model with rewards.

    model: a path, as of Model.
    reward_funcs: functions of `prompts`, `completions`, the columns of the rows and **kwargs, each a list with an entry
        for every completion; they return a list of numbers, with None where they do not apply.
    args: a Config, also with a weight for each reward.
    train_dataset, eval_dataset: rows with `prompt`, text or a list of messages; a list of dicts, a dataset of
        `datasets`, a pandas DataFrame.
    processing_class: the path of another tokenizer.
    """

    def __init__(self, model: str | os.PathLike[str], reward_funcs: Reward | str | Sequence[Reward],
                 args: Config | None = None, train_dataset: Iterable[Mapping[str, Any]] | None = None,
                 eval_dataset: Iterable[Mapping[str, Any]] | None = None,
                 processing_class: str | os.PathLike[str] | None = None,
                 peft_config: LoraConfig | None = None, **others: Any) -> None:
        _refuse(others, {
            "callbacks": "hooks are not called from Python; read trainer.state.log_history after train()",
            "optimizers": "the optimizer is a setting; give optim, learning_rate and lr_scheduler_type in args",
            "rollout_func": "an environment is a script's here; see docs/tools.md",
            "environment_factory": "an environment is a script's here; see docs/tools.md",
            "tools": "tools are a script's here; see docs/tools.md",
        })
        for name, value in (("model", model), ("processing_class", processing_class)):
            if value is not None and not isinstance(value, (str, os.PathLike)):
                raise TypeError(f"Trainer: {name} is a {type(value).__name__}, because no object of another library can be "
                                "trained here; give the path of its directory")
        for name, given, kind in (("args", args, Config), ("peft_config", peft_config, LoraConfig)):
            if given is not None and not isinstance(given, kind):
                raise TypeError(f"Trainer: {name} is a {type(given).__module__}.{type(given).__name__}, because that of "
                                f"another library cannot be read; write: from grpo import {'GRPOConfig' if kind is Config else 'LoraConfig'}")
        if train_dataset is None:
            raise ValueError("Trainer: there is no train_dataset, because none was given; give rows with a column prompt")
        self.args = args or Config()
        _check_groups(self.args.settings)
        self.model_path, self._tokenizer_path = os.fspath(model), processing_class and os.fspath(processing_class)
        one = callable(reward_funcs) or isinstance(reward_funcs, str)
        self.reward_funcs: List[Reward] = [reward_funcs] if one else list(reward_funcs or [])  # type: ignore
        for reward in self.reward_funcs:
            if not callable(reward):
                raise TypeError(f"Trainer: the reward {reward!r} is no function, because reward models are a script's "
                                "entry here; give a function of prompts, completions and columns")
        self._rows = {"train": self._read(train_dataset, "train_dataset"),
                      "eval": [] if eval_dataset is None else self._read(eval_dataset, "eval_dataset")}
        self._lora = peft_config
        self._model: Optional[Model] = None
        self.state = State([])

    @staticmethod
    def _read(dataset: Any, name: str) -> List[Mapping[str, Any]]:
        if isinstance(dataset, Mapping):
            raise ValueError(f"Trainer: {name} has the parts {', '.join(map(repr, dataset))}, because it is a dict of datasets; "
                             "give one of them")
        if isinstance(dataset, (str, os.PathLike)):
            raise ValueError(f"Trainer: {name} is the name {str(dataset)!r:.60}, because nothing was loaded; give its rows")
        rows = dataset.to_dict("records") if hasattr(dataset, "iloc") else list(dataset)  # of pandas
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping) or not isinstance(row.get("prompt"), (str, list)):
                found = "columns " + ", ".join(map(str, row)) if isinstance(row, Mapping) else type(row).__name__
                raise ValueError(f"Trainer: row {i} of {name} has no prompt, because a row is a dict whose prompt is text or "
                                 f"a list of messages; map the dataset first (the row: {found:.200})")
        return rows

    # ---- what the run asks for ------------------------------------------------------------------

    def _settings(self) -> Dict[str, Any]:
        settings = dict(self.args.settings)
        if self._lora is not None:
            settings.update(self._lora.settings)
        told = {"settings": settings, "model": self.model_path, "eval": bool(self._rows["eval"])}
        return {**told, "tokenizer": self._tokenizer_path} if self._tokenizer_path else told

    def _answer(self, make: Callable[..., Any]) -> Callable[..., None]:
        def answer(_: Any, arguments: bytes, answer: Any) -> None:
            text = json.dumps(make(*json.loads(arguments))).encode()
            status = lib.grpo_answer_json(answer, text, len(text))
            if status != _abi.GRPO_OK:
                raise MemoryError("the library cannot hold the rows")

        return answer

    def _rows_of(self, name: str) -> List[Dict[str, Any]]:
        return [{"prompt": row["prompt"], "set": name, "row": i} for i, row in enumerate(self._rows[name])]

    def _judge(self, reward: Reward, name: str) -> Callable[..., None]:
        """A reward of the run: the completions of one prompt at once."""

        def judge(_: Any, samples: Any, count: int, rewards: Any) -> None:
            first = ctypes.byref(samples[0])
            row = self._rows[lib.grpo_sample_field(first, b"set").decode()][int(float(lib.grpo_sample_field(first, b"row")))]
            texts: List[Any] = [text_of(samples[i]) for i in range(count)]
            if not isinstance(row["prompt"], str):
                texts = [[{"role": "assistant", "content": text}] for text in texts]
            ids = [samples[i].ids[: samples[i].length] for i in range(count)]
            columns = {key: [value] * count for key, value in row.items() if key not in ("prompt", "completion")}
            values = reward(prompts=[row["prompt"]] * count, completions=texts,
                            **{"completion_ids": ids, "trainer_state": self.state, **columns})
            for i, value in enumerate(_numbers(values, name, count)):
                rewards[i] = value

        return judge

    def _step(self, _: Any, step: int, metrics: Any) -> None:
        items = metrics.contents
        log = {items.items[i].name.decode(): items.items[i].value for i in range(items.count)}
        log["step"] = self.state.global_step = step
        self.state.log_history.append(log)
        every = int(self.args.settings.get("logging_steps", 10))
        if every > 0 and step % every == 0 and self.args.settings.get("logging_strategy") != "no":
            names = ("reward", "reward_std", "loss", "kl", "completions/mean_length", "learning_rate")
            print({"step": step, **{name: float(f"{log[name]:.4g}") for name in names if name in log}}, flush=True)

    # ---- training -------------------------------------------------------------------------------

    def _newest(self) -> str:
        runs = glob.glob(os.path.join(glob.escape(self.args.output_dir), "*", "run.json"))
        if not runs:
            raise ValueError(f"train: no run can be continued, because {self.args.output_dir} has none; leave out "
                             "resume_from_checkpoint")
        return os.path.dirname(max(runs, key=lambda file: os.stat(file).st_mtime_ns))

    def train(self, resume_from_checkpoint: str | os.PathLike[str] | bool | None = None) -> TrainOutput:
        """Trains, and leaves the metrics in `state`.

        resume_from_checkpoint: the directory of a run of this trainer's, which is continued with the settings of now; True:
        the newest run in output_dir.  Ctrl-C finishes the step and writes a checkpoint; a second one ends at once.
        """
        if resume_from_checkpoint is True:
            resume_from_checkpoint = self._newest()
        begins = resume_from_checkpoint is None or resume_from_checkpoint is False
        resume = None if begins else file_of(resume_from_checkpoint, "resume_from_checkpoint")
        context = Context(self.args.threads)
        o = options(_abi.grpo_run_options)
        o.script = pkgutil.get_data(__package__, "experiment.lua")
        o.path, o.directory = b"grpo.Trainer", os.fsencode(self.args.output_dir)
        words = [f"{name}={value if isinstance(value, str) else json.dumps(value)}".encode()
                 for name, value in self.args.options.items()]
        o.overrides, o.override_count = (ctypes.c_char_p * len(words))(*words), len(words)
        if resume is not None:
            o.path, o.script, o.resume = None, None, resume
        self.state.log_history, self.state.global_step = [], 0
        run = context.make(lib.grpo_run_new, context.handle, ctypes.byref(o))
        try:
            kept = self._prepare(context, run)
            try:
                context.call(lib.grpo_run_execute, run, stop=lambda: lib.grpo_run_stop(run))
                if resume is not None and not self.state.log_history:
                    logger.warning("%s is finished already, so that nothing was trained; give it as `model` to train further",
                                   os.fsdecode(resume))
            finally:
                self._finish(run)
            del kept
        finally:
            lib.grpo_run_free(run)
        steps = [log for log in self.state.log_history if "loss" in log]
        mean = sum(log["loss"] for log in steps) / len(steps) if steps else math.nan
        return TrainOutput(self.state.global_step, mean, steps[-1] if steps else {})

    def _prepare(self, context: Context, run: ctypes.c_void_p) -> List[Any]:
        """Gives the run what it asks for; the result must live as long as it."""
        kept: List[Any] = []

        def callback(kind: Any, function: Callable[..., Any]) -> Any:
            kept.append(context.callback(kind, function, _abi.GRPO_ESCRIPT))
            return kept[-1]

        for name, make in (("settings", self._settings), ("rows", self._rows_of)):
            context.check(lib.grpo_run_add_function(run, name.encode(), callback(_abi.grpo_call_fn, self._answer(make)), None))
        weights = [1.0] * len(self.reward_funcs) if self.args.reward_weights is None else list(self.args.reward_weights)
        if len(weights) != len(self.reward_funcs):
            raise ValueError(f"Trainer: there are {len(weights)} reward_weights for {len(self.reward_funcs)} rewards, because "
                             "each reward has one; give as many")
        names: List[str] = []
        for reward, weight in zip(self.reward_funcs, weights):
            if not isinstance(weight, numbers.Real):
                raise TypeError(f"Trainer: a reward weight is {weight!r:.60}, because reward_weights are numbers; give one")
            own = name = getattr(reward, "__name__", type(reward).__name__)
            while name in names:  # two lambdas
                name = f"{own}_{len(names) + 1}"
            names.append(name)
            judge = callback(_abi.grpo_group_reward_fn, self._judge(reward, name))
            context.check(lib.grpo_run_add_group_reward(run, name.encode(), float(weight), judge, None))
        context.check(lib.grpo_run_on_step(run, callback(_abi.grpo_step_fn, self._step), None))
        return kept

    def _finish(self, run: ctypes.c_void_p) -> None:
        steps, stopped, directory = ctypes.c_int64(), ctypes.c_int32(), ctypes.c_char_p()
        lib.grpo_run_result(run, ctypes.byref(steps), ctypes.byref(stopped), ctypes.byref(directory))
        if not directory.value:
            return
        self.state.directory, self.state.global_step, self._model = os.fsdecode(directory.value), steps.value, None
        logs = self._logged("metrics.jsonl", "") + self._logged("eval.jsonl", "eval/")
        self.state.log_history = sorted(logs, key=lambda log: log["step"])

    def _logged(self, file: str, prefix: str) -> List[Metrics]:
        """The numbers of the run's log, also of the steps before it was continued; those of an evaluation have TRL's names."""
        logs: List[Metrics] = []
        path = os.path.join(self.state.directory, file)
        if not os.path.exists(path):
            return logs
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                log = {name.replace("eval/", "eval_", 1): math.nan if value is None else float(value)
                       for name, value in row.items()
                       if name.startswith(prefix) and isinstance(value, (int, float, type(None))) and name != "log_line"}
                logs.append({**log, "step": row["step"]})
        return logs

    # ---- afterwards -----------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model as the run left it, or before one as it was given."""
        if self._model is None:
            self._model = Model(self.state.directory or self.model_path, threads=self.args.threads)
            self._model.chat_template = self.args.options.get("model.chat_template")
        return self._model

    def generate(self, prompts: str | Sequence[Prompt], **sampling: Any) -> List[Completion]:
        """Completions of the model as the run left it; sampling: what Model.generate takes, such as max_new_tokens."""
        return self.model.generate(prompts, **sampling)

    def score(self, prompts: str | Sequence[Prompt], completions: str | Sequence[str]) -> List[List[float]]:
        """Log-probabilities of the tokens of each completion after its prompt, as Model.score."""
        return self.model.score(prompts, completions)

    def save_model(self, output_dir: str | os.PathLike[str] | None = None, **export: Any) -> None:
        """Writes the model as the run left it, into the folder `model` of args.output_dir if no other is given; export: what
        Model.save_pretrained takes, such as merge=True."""
        self.model.save_pretrained(output_dir or os.path.join(self.args.output_dir, "model"), **export)
