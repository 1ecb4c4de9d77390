---@meta _
-- Models.

---@alias grpo.Prompt string|integer[] a string is encoded with the tokenizer's own special tokens

---@class grpo.Model
---@field config table read-only: config.json's fields
---@field tokenizer grpo.Tokenizer|nil may be set
---@field compute "f32"|"bf16" how products with its weights are computed
---@field frozen boolean a reference: it has no gradients
local Model = {}

---Parameters, tied weights once.
---@param opts? { trainable?: boolean }
---@return integer
function Model:count(opts) end

---Bytes that a token takes in the key/value cache, all layers together; the second result is the
---number if every head's keys and values were stored, instead of those that heads share (grouped
---queries) or a latent (latent attention).
---@return integer
---@return integer
function Model:cache_bytes_per_token() end

---Hugging Face's name, the tensor itself (a copy if the weight is quantised or frozen), whether it
---is trained.
---@return fun(): string|nil, grpo.Tensor|nil, boolean|nil
function Model:parameters() end

---@param ids grpo.Prompt
---@return grpo.Tensor logits [T, vocab]
function Model:logits(ids) end

---log p(ids[i+1] | ids[1..i])
---@param ids grpo.Prompt
---@return grpo.Tensor logprobs [T-1]
function Model:logprobs(ids) end

---@class grpo.GenerateOptions
---@field max_new_tokens? integer
---@field temperature? number 0 is greedy
---@field top_p? number
---@field top_k? integer
---@field min_p? number
---@field repetition_penalty? number
---@field stop? string[] they stay in the text
---@field stop_regex? string|grpo.Regex
---@field grammar? string GBNF: every completion keeps to it
---@field regex? string a regular expression in place of a grammar
---@field n? integer completions of each prompt (default 1)
---@field seed? integer default 0
---@field sampling_mask? boolean where top_p, top_k, min_p or a grammar filter, renormalise logprobs and return the tokens that were left (default false)
---@field on_token? fun(id: integer, index: integer) called after every token; index: the completion's place in the result

---@class grpo.Generated
---@field text string|nil without special tokens; nil when the model has no tokenizer
---@field ids integer[]
---@field logprobs number[] of all tokens at the temperature; with the option sampling_mask, renormalised over the tokens that the filters left
---@field sampling_mask? string with the option sampling_mask, where there are filters: the tokens that each was sampled from, for score
---@field finish "eos"|"stop"|"length"
---@field prompt integer which prompt, from 1

---@param prompts grpo.Prompt|grpo.Prompt[]
---@param opts? grpo.GenerateOptions
---@return grpo.Generated[]
function Model:generate(prompts, opts) end

---@class grpo.Scores
---@field logp grpo.Tensor [N] over all completion tokens, in order
---@field entropy grpo.Tensor [N]
---@field lengths integer[] tokens of each completion
---@field sequence integer[] [N] 1-based completion of each token

---One prompt per completion; equal prompts are computed once.
---@param prompts grpo.Prompt[]
---@param completions (integer[]|string)[] strings get no special tokens
---@param opts? { temperature?: number, grad?: boolean, sampling_masks?: (string|false)[], max_new_tokens?: integer } grad: logp and entropy lead back into the parameters; sampling_masks: of each completion, as generate gives it; logp and entropy are then those of the distributions that the filters left; max_new_tokens: that of sampling, where longrope's factors follow from it
---@return grpo.Scores
function Model:score(prompts, completions, opts) end

---@param path string a directory; a file with format "gguf"
---@param opts? { format?: "hf"|"adapter"|"gguf", dtype?: "f32"|"f16"|"bf16"|"nf4"|"q8_0"|"q4_0"|"mxfp4", merge?: boolean, shard_bytes?: integer, base_name?: string } merge: the adapter into what is written; base_name: what the adapter calls its base
function Model:save(path, opts) end

---Forgets the gradients of all parameters.
function Model:zero_grad() end

---@class grpo.LoraOptions
---@field rank? integer default 8
---@field alpha? number the adapter's output is scaled by alpha / rank (default 16)
---@field dropout? number of the adapter's inputs, in training (default 0)
---@field targets? string|string[] names of modules, or "all-linear" (default): every projection of the layers
---@field use_rslora? boolean scale by alpha / sqrt(rank)
---@field seed? integer default 0

---A fresh low-rank adapter, which changes nothing yet.  From now on only its A and B are trained.
---@param opts? grpo.LoraOptions
function Model:add_lora(opts) end

---Adds the adapter to the weights; the model has none then.
function Model:merge_lora() end

---@param path string a PEFT folder, or the run directory of one
function Model:load_adapter(path) end

---Runs f with the adapter switched off and returns what it returns.
---@generic T
---@param f fun(...): T
---@return T
function Model:without_adapter(f, ...) end

---@class grpo.RewardModelOptions
---@field label? string whose logit counts; needed where there are several
---@field output? "logit"|"probability" default "logit"; probability: softmax over the labels, or the logistic function of one label or of labels that do not exclude each other
---@field text? fun(c: grpo.Completion): string|grpo.Message[]|integer[] what is judged; default: the prompt's messages and the completion as the assistant's, in the reward model's chat template, or, without messages, prompt and completion
---@field tokenizer? grpo.Tokenizer|string default: the one beside the weights
---@field dtype? "f32"|"bf16"|"auto" storage of the weights (default "f32")
---@field quantize? "nf4"|"int8" storage of the projections
---@field compute? "f32"|"bf16" default "f32"

---@class grpo.RewardModel
---@field labels string[] of config.json
---@field tokenizer grpo.Tokenizer|nil
---@field group_fn fun(texts: string[], row: table, cs: grpo.Completion[]): number[] for an entry of rewards
local RewardModel = {}

---The ids of a text with special tokens, of messages by the chat template, or of ids.
---@param text string|grpo.Message[]|integer[]
---@return integer[]
function RewardModel:encode(text) end

---One logit for each label, for each text.
---@param texts (string|grpo.Message[]|integer[])[]
---@return number[][]
function RewardModel:logits(texts) end

---One number for each text, by label and output.
---@param texts (string|grpo.Message[]|integer[])[]
---@return number[]
function RewardModel:score(texts) end
