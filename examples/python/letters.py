"""A tiny model learns to repeat the letter it is shown: python3 letters.py [steps].  Needs the wheel of docs/python.md."""
import sys

from grpo import GRPOConfig, GRPOTrainer, Model

# a model of its own, so that nothing is downloaded; a directory of a pretrained one takes its place
Model.from_config({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "max_position_embeddings": 32, "initializer_range": 0.1},
                  characters="abcdefgh").save_pretrained("letters-model")


def repeats(prompts, completions, letter, **kwargs):
    """The share of the letters wanted that are the row's."""
    return [text.count(wanted) / 8 for text, wanted in zip(completions, letter)]


args = GRPOConfig(
    output_dir="letters-runs",
    max_steps=int(sys.argv[1]) if len(sys.argv) > 1 else 60,
    num_generations=8,
    per_device_train_batch_size=64,
    max_prompt_length=1,
    max_completion_length=8,
    learning_rate=1e-2,
    lr_scheduler_type="constant",
    logging_steps=20,
    report_to="none",
)
trainer = GRPOTrainer(
    model="letters-model",
    reward_funcs=repeats,
    args=args,
    train_dataset=[{"prompt": letter, "letter": letter} for letter in "abcdefgh"],
)
trainer.train()
trainer.save_model("letters-trained")
print(trainer.generate("c", max_new_tokens=8, temperature=0)[0].text)
