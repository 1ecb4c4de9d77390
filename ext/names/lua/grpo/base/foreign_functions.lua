-- Functions, classes and methods of TRL, transformers, datasets and Python, and what they are here:
-- for a script that names one.

local foreign_functions = {}

local experiment, trainer = "grpo.experiment", "'grpo run SCRIPT'"
local load_model, load_tokenizer = "grpo.model.load(path)", "grpo.tokenizer.load(path)"
local sft, ppo = 'a stage of kind "sft" of grpo.experiment',
  'a stage of kind "ppo" of grpo.experiment'
local dpo, reward = 'a stage of kind "dpo" of grpo.experiment',
  'a stage of kind "reward" of grpo.experiment'

-- [NAME] = what it is here, the end of "NAME is ... here".
local functions = {
  -- TRL, transformers, PEFT
  GRPOTrainer = experiment, GRPOConfig = experiment, Trainer = experiment,
  RLOOTrainer = experiment, RLOOConfig = experiment, OnlineDPOTrainer = experiment,
  TrainingArguments = experiment, GenerationConfig = "the section sampling of grpo.experiment",
  SamplingParams = "the section sampling of grpo.experiment",
  SFTTrainer = sft, SFTConfig = sft, PPOTrainer = ppo, PPOConfig = ppo, DPOTrainer = dpo,
  DPOConfig = dpo, KTOTrainer = dpo, KTOConfig = dpo, ORPOTrainer = dpo, ORPOConfig = dpo,
  CPOTrainer = dpo, CPOConfig = dpo, RewardTrainer = reward, RewardConfig = reward,
  LoraConfig = "the option model.lora of grpo.experiment", ModelConfig = "the section model",
  get_peft_model = "the option model.lora of grpo.experiment, or model:add_lora(options)",
  PeftModel = load_model .. ", which takes the directory of an adapter",
  AutoPeftModelForCausalLM = load_model .. ", which takes the directory of an adapter",
  BitsAndBytesConfig = "the option model.quantize of grpo.experiment",
  AutoModelForCausalLM = load_model, AutoModel = load_model, FastLanguageModel = load_model,
  FastModel = load_model, LLM = load_model,
  AutoModelForSequenceClassification = "grpo.reward_model",
  AutoTokenizer = load_tokenizer, AutoProcessor = load_tokenizer,
  AutoConfig = "model.config of a model that is loaded",
  from_pretrained = "grpo.model.load(path) or grpo.tokenizer.load(path)",
  from_config = "grpo.model.new(config)", pipeline = "model:generate(prompts, options)",
  trainer = trainer .. ", or grpo.trainer(experiment)", model = load_model .. ", kept in a local",
  tokenizer = load_tokenizer .. ", kept in a local",
  dataset = "grpo.data.load(name), kept in a local",
  save_pretrained = ":save(directory)", save_model = ":save(directory)",
  push_to_hub = "'grpo export', whose directory the Hub's own tools upload",
  merge_and_unload = ":save(directory, { merge = true })", merge_adapter = ":merge_lora()",
  apply_chat_template = "tokenizer:chat(messages)", batch_decode = "tokenizer:decode(ids) of each",
  batch_encode_plus = "tokenizer:encode(text) of each", encode_plus = "tokenizer:encode(text)",
  tokenize = "tokenizer:encode(text)", convert_tokens_to_ids = "tokenizer:id(token)",
  convert_ids_to_tokens = "tokenizer:token(id)", eos_token_id = "tokenizer.eos",
  pad_token_id = "tokenizer.pad", bos_token_id = "tokenizer.bos", eos_token = "tokenizer.eos",
  pad_token = "tokenizer.pad", bos_token = "tokenizer.bos", vocab_size = "#tokenizer",
  train = trainer .. ", or tr:step() in a loop", evaluate = "'grpo eval', or tr:evaluate()",
  predict = "'grpo generate'", add_callback = "the option hooks of grpo.experiment",
  num_parameters = "model:count()", state_dict = "model:parameters()",
  named_parameters = "model:parameters()",
  print_trainable_parameters = "model:count { trainable = true }",
  get_nb_trainable_parameters = "model:count { trainable = true }",
  gradient_checkpointing_enable = "the option model.gradient_checkpointing",
  disable_adapter = "model:without_adapter(f)", set_seed = "the option seed of grpo.experiment",
  -- datasets
  load_dataset = "grpo.data.load", load_from_disk = "grpo.data.load", Dataset = "grpo.data.list",
  DatasetDict = "grpo.data.load", from_list = "grpo.data.list", from_dict = "grpo.data.list",
  from_generator = "grpo.data.generate", from_json = "grpo.data.jsonl", from_csv = "grpo.data.load",
  snapshot_download = "grpo.hub.snapshot",
  -- Python's modules
  torch = "grpo (grpo.tensor, grpo.zeros, grpo.no_grad, grpo.optim)", np = "grpo.tensor",
  numpy = "grpo.tensor", re = "grpo.regex", json = "grpo.json", random = "math.random",
  datasets = "grpo.data", transformers = "grpo", trl = "grpo", peft = "grpo", unsloth = "grpo",
  vllm = "grpo", sys = "os or io", time = "os.time() or os.clock()", argparse = "grpo.args",
  wandb = "'python3 examples/wandb_forward.py RUN'", pd = "grpo.data", pandas = "grpo.data",
  tqdm = "ipairs (a run shows its own progress)", huggingface_hub = "grpo.hub",
  Accelerator = "what the engine does by itself", logging = "print", F = "a method of a tensor",
  nn = "grpo.model.new(config)", login = "the environment variable HF_TOKEN",
  -- Python's constants and functions
  None = "nil", True = "true", False = "false", null = "nil", undefined = "nil", this = "self",
  len = "#x", range = "for i = 1, n do ... end", str = "tostring(x)", int = "math.tointeger(x)",
  float = "tonumber(x)", bool = "x ~= nil and x ~= false", list = "a table, { 1, 2 }",
  dict = "a table, { name = value }", set = "a table, { [x] = true }", tuple = "a table, { 1, 2 }",
  enumerate = "for i, x in ipairs(list) do ... end",
  zip = "for i = 1, #a do ... a[i], b[i] ... end",
  isinstance = "type(x) == \"table\"", hasattr = "x.name ~= nil", getattr = "x[name]",
  setattr = "x[name] = value", max = "math.max", min = "math.min", abs = "math.abs",
  round = "math.floor(x + 0.5)", sorted = "table.sort(list)", reversed = "for i = #list, 1, -1 do",
  sum = "a loop", any = "a loop", all = "a loop", open = "io.open(path)", input = "io.read()",
  repr = "(\"%q\"):format(x)", ord = "utf8.codepoint(s)", chr = "utf8.char(n)",
  try = "pcall(f, x)", raise = "error(message)", Exception = "error(message)",
  ValueError = "error(message)",
  console = "print", exit = "return", quit = "return", __name__ = "left out",
  -- methods of Python's texts, lists and tables
  strip = "s:match(\"^%s*(.-)%s*$\")", lstrip = "s:match(\"^%s*(.*)$\")",
  rstrip = "s:match(\"^(.-)%s*$\")", split = "for part in s:gmatch(\"%S+\") do ... end",
  splitlines = "for line in s:gmatch(\"[^\\n]+\") do ... end", startswith = "s:sub(1, #p) == p",
  endswith = "s:sub(-#p) == p", join = "table.concat(list, separator)",
  replace = "s:gsub(pattern, text)", isdigit = "s:find(\"^%d+$\")", isalpha = "s:find(\"^%a+$\")",
  isnumeric = "s:find(\"^%d+$\")", trim = "s:match(\"^%s*(.-)%s*$\")",
  toLowerCase = "s:lower()", toUpperCase = "s:upper()", includes = "s:find(text, 1, true)",
  append = "list[#list + 1] = x", push = "list[#list + 1] = x", extend = "table.move",
  items = "for name, value in pairs(t) do ... end", keys = "for name in pairs(t) do ... end",
  values = "for _, value in pairs(t) do ... end", pop = "table.remove(list)",
  findall = "for part in s:gmatch(pattern) do ... end", tolist = "tensor:totable()",
  cuda = "what needs no call: all runs on the CPU",
  cpu = "what needs no call: all runs on the CPU", to = "the option model.dtype",
}

-- [NAME] = what datasets have in its place.
local methods = {
  select = ":take and :skip", train_test_split = ":split(fraction, seed)", rename_column = ":map",
  rename_columns = ":map", remove_columns = ":map", select_columns = ":map", add_column = ":map",
  column_names = ":columns()", features = ":columns()", num_rows = "#dataset",
  to_list = ":rows()", iter = ":rows()", to_pandas = ":rows()", set_format = ":map",
  with_format = ":map", shard = ":take and :skip", sort = ":map", to_json = ":rows()",
}

-- The end of "NAME is ... here" for a function, a class or a name of another program;
-- nil if no program has it.
function foreign_functions.called_here(name) return functions[name] end

-- The methods of datasets in place of one that they have in Python, or nil.
function foreign_functions.method_of_datasets(name) return methods[name] end

return foreign_functions
