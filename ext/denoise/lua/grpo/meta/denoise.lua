---@meta _
-- What the extension denoise adds: masked training, filling in masks, and its options.

---@class grpo.Model
local Model = {}

---@class grpo.UnmaskOptions
---@field n? integer samples (default 1)
---@field steps? integer forwards, at most (default 16); never more than there are masks
---@field temperature? number 0 is greedy (default 1)
---@field top_p? number
---@field top_k? integer
---@field min_p? number
---@field seed? integer default 0
---@field order? "confidence"|"random"|"left" which tokens of a forward stay (default "confidence")
---@field noise? number of the confidence, going to 0 over the steps (default 0)
---@field hole? string what stands for one masked token in a text (default: the mask token's own text)
---@field mask? integer the mask token (default: config.mask_token_id, else the tokenizer's)

---@class grpo.Unmasked
---@field text string|nil without special tokens; nil when the model has no tokenizer
---@field ids integer[]
---@field logprobs number[] of each token filled in, when it was; 0 elsewhere

---Fills in masks with a model that was trained to (kind = "denoise"), seeing both ways.
---@param what string|integer[]|integer text with holes, ids with masks, or how many masks
---@param opts? grpo.UnmaskOptions
---@return grpo.Unmasked[]
function Model:unmask(what, opts) end

---@class grpo.Tokenizer
local Tokenizer = {}

---A tokenizer that has a mask token: this one if it has one already, else one with an id more at
---the end.
---@param token? string default "<|mask|>"
---@return grpo.Tokenizer
function Tokenizer:with_mask(token) end

-- ---- options -----------------------------------------------------------------------------

---@class grpo.Options.train
---@field denoise? grpo.Options.train.denoise

---@class grpo.Options.train.denoise
---@field mask_ratio? number|grpo.Schedule|number[] share of a text's tokens that are masked: a number or schedule; or { low, high }, from which each row of a step samples its own (default { 0.1, 1 })
---@field random? number share of the masked tokens that become a random token instead of the mask (BERT: 0.1) (default 0)
---@field keep? number share of the masked tokens that stay as they are (BERT: 0.1) (default 0)
---@field mask_prompt? boolean mask tokens of data.prompt's text too, not of data.target's alone (default true)
---@field sample_steps? integer forwards of a sample in the log, as steps of m:unmask (default 64)
---@field sample_order? "confidence"|"random"|"left" order in which a sample in the log is filled in, as of m:unmask (default "random")

---@class grpo.Options.eval
---@field mask_ratio? number share of the held-out tokens that are masked, for kind="denoise" (default 0.15)
