"""Trains language models with rewards (GRPO) on CPUs: Trainer and Config have TRL's names.  See docs/python.md."""
from ._library import Context, Error, lib
from .config import Config, LoraConfig
from .model import Completion, Model
from .trainer import Trainer, TrainOutput

# a script of TRL's needs another import only
GRPOConfig, GRPOTrainer = Config, Trainer

__version__ = lib.grpo_version().decode()
__all__ = ["Completion", "Config", "Context", "Error", "GRPOConfig", "GRPOTrainer", "LoraConfig", "Model", "Trainer",
           "TrainOutput", "__version__"]
