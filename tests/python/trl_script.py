"""A script for TRL: tools/check-wheel runs it after a change of its first import."""
from trl import GRPOConfig, GRPOTrainer
from datasets import load_dataset

dataset = load_dataset("json", data_files="sums.jsonl", split="train")


def short_reward(completions, **kwargs):
    """Twenty characters are best."""
    return [-abs(20 - len(completion)) / 20 for completion in completions]


def answer_reward(completions, answer, **kwargs):
    return [1.0 if wanted in text else 0.0 for text, wanted in zip(completions, answer)]


training_args = GRPOConfig(
    output_dir="trl-runs",
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    num_generations=4,
    max_completion_length=16,
    learning_rate=1e-3,
    max_steps=4,
    logging_steps=2,
    save_steps=2,
    report_to="none",
    gradient_checkpointing=False,
    use_vllm=False,
)
trainer = GRPOTrainer(
    model="trl-model",
    reward_funcs=[short_reward, answer_reward],
    args=training_args,
    train_dataset=dataset,
)
trainer.train()
trainer.save_model("trl-trained")
