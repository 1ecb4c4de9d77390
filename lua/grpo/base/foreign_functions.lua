-- Functions and classes of TRL, transformers and datasets, and what they are here: for a script
-- that names one.

local errors = require "grpo.base.errors"
local options = require "grpo.options"

local foreign_functions = {}

local functions = {
  GRPOTrainer = "grpo.experiment", GRPOConfig = "grpo.experiment", Trainer = "grpo.experiment",
  TrainingArguments = "grpo.experiment",
  SFTTrainer = 'a stage of kind "sft" of grpo.experiment',
  SFTConfig = 'a stage of kind "sft" of grpo.experiment',
  PPOTrainer = 'a stage of kind "ppo" of grpo.experiment',
  PPOConfig = 'a stage of kind "ppo" of grpo.experiment',
  LoraConfig = "the option model.lora of grpo.experiment",
  AutoModelForCausalLM = "grpo.model.load", AutoModel = "grpo.model.load",
  AutoModelForSequenceClassification = "grpo.reward_model", AutoTokenizer = "grpo.tokenizer.load",
  load_dataset = "grpo.data.load", load_from_disk = "grpo.data.load", Dataset = "grpo.data.list",
  from_list = "grpo.data.list", from_generator = "grpo.data.generate",
  snapshot_download = "grpo.hub.snapshot",
}

local methods = {
  select = ":take and :skip", train_test_split = ":split(fraction, seed)", rename_column = ":map",
  rename_columns = ":map", remove_columns = ":map", select_columns = ":map", add_column = ":map",
  column_names = ":columns()", features = ":columns()", num_rows = "#dataset",
  to_list = ":rows()", iter = ":rows()",
}

-- Raises: the table `of` has no function `name`; known: those that it has.
function foreign_functions.refuse(of, name, known)
  local ours = functions[name]
  if ours then errors.raise("EARG", "%s.%s is %s here", of, name, ours) end
  errors.raise("EARG", "%s.%s: there is no such function, %s", of, tostring(name),
    options.advice(name, known))
end

-- Raises if datasets in Python have a method `name`, and those here another one for it.
function foreign_functions.refuse_method(name)
  local ours = methods[name]
  if ours then errors.raise("EARG", "a dataset has %s in place of %s", ours, name) end
end

return foreign_functions
