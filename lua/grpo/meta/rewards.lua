---@meta _
-- The ready rewards, rewards/NAME.lua: require "rewards.NAME".

---@class rewards.gsm8k
local gsm8k = {}

---1 when the number in <answer> equals the gold one, else 0.  Numbers are compared, not
---spellings: 1,234 and $1234 and 1234.0 are the same.
---@param text string
---@param row { answer: string|number }
---@return number
function gsm8k.correct(text, row) end

---1 when <answer> holds nothing but digits (a minus may lead), else -1.
---@param text string
---@return number
function gsm8k.integer(text) end

---1 when the text is exactly <thinking>\n...\n</thinking>\n<answer>\n...\n</answer>, every tag once
---and on its own line, else -1.
---@param text string
---@return number
function gsm8k.layout(text) end

---0 when nothing but white space follows the last </answer>; -0.5 when something does, or when
---there is no </answer> at all.
---@param text string
---@return number
function gsm8k.nothing_after(text) end

---0 for a length within bounds, else `penalty`.  Lengths are in tokens, or in characters if the
---caller gives no token count.
---@param opts { min: integer?, max: integer?, penalty: number? }
---@return fun(text: string, row: table, c: table): number
function gsm8k.length(opts) end

---@class rewards.format
local format = {}

---1 when the text consists of these blocks, `<a>...</a><b>...</b>`, in this order and each tag
---exactly once, else 0.
---@param opts { [integer]: string, newlines: boolean?, rest: boolean? }
---   newlines: every tag on a line of its own and no other white space, as in
---   "<a>\n...\n</a>\n<b>\n...\n</b>"; otherwise white space around blocks is free.
---   rest: anything may follow the last block.
---@return fun(text: string): number
function format.tags(opts) end

---Partial credit for a layout: every opening and closing tag that occurs exactly once
---scores an equal share of 1, and each character after the last closing tag costs extra_cost.
---The reward is never below 0.
---@param opts { tags: string[], extra_cost: number? }
---@return fun(text: string): number
function format.partial(opts) end

---1 when a PCRE2 expression matches somewhere in the text, else 0.
---@param pattern string anchor it (\A, \z) to ask about the whole text
---@param flags? string "i" "s" "m" "x"
---@return fun(text: string): number
function format.regex(pattern, flags) end

---Rewards reasoning in visible steps: their number over `full`, at most 1.
---@param opts? { full: integer? }
---@return fun(text: string): number
function format.steps(opts) end

---1 when the text is in the layout of `tags` with newlines, and its last block holds a fenced
---block of code in `language`, else 0.
---@param opts? { language: string?, tags: string[]? }
---@return fun(text: string): number
function format.code(opts) end

---@class rewards.length
local length = {}

---Length of a completion, in tokens, or in characters if `c` has no token count.
---@param text string
---@param c table|nil
---@param unit? "tokens"|"chars"
---@return integer
function length.measure(text, c, unit) end

---A right answer is worth more the shorter it is, a wrong one costs less the longer it is,
---along a cosine (2502.03373).  nil where the judge says nil.  Past max_len the value stays.
---@param opts? rewards.length.Cosine
---@return fun(text: string, row: table, c: table): number|nil
function length.cosine(opts) end

---0 up to limit - cache, then falling linearly to -1 at `limit` (DAPO's overlong shaping).
---@param opts { limit: number, cache: number, unit: "tokens"|"chars"? }
---@return fun(text: string, row: table, c: table): number
function length.soft_overlong(opts) end

---For `group_fn`: 0.5 for the shortest of the group down to -0.5 for the longest, at most 0 for
---a wrong one; all 0 when the lengths are equal (Kimi 1.5, 2501.12599).
---@param opts? { unit: "tokens"|"chars"?, correct: function? }
---@return fun(texts: string[], row: table, cs: table[]): number[]
function length.relative(opts) end

---@class rewards.repetition
local repetition = {}

---max_penalty times the share of n-grams that are repetitions: 0 when all differ (2502.03373).
---Over the completion's tokens where c.ids is there, else, or with unit = "words", over its
---words in lower case.
---@param opts { n: integer, max_penalty: number, unit: "tokens"|"words"? }
---   max_penalty: what a text of nothing but repetition approaches; not above 0
---@return fun(text: string, row: table, c: table): number
function repetition.ngram(opts) end

---@class rewards.numeric
local numeric = {}

---1 when the completion's answer (last \boxed{}, or ####, or <answer>, or the last number) equals
---the row's, else 0.  Called with { field =, after = } it returns such a reward.
---@param text string|table
---@param row? table
---@return number|fun(text: string, row: table): number
function numeric.equal(text, row) end

---verl's scorers.  "strict": the number after ####, as text; "flexible": the last number, as
---text; "math": the last \boxed, normalised text; these give 1 or 0.  "dapo": the last
---"Answer:" line, else the last \boxed, normalised text, 1 or -1.
---@param opts { method: "strict"|"flexible"|"math"|"dapo", field: string? }
---@return fun(text: string, row: table): number, { extracted: string }
function numeric.verl(opts) end

---@class rewards.text
local text = {}

---1 when the reference occurs in the completion, else 0.  The reference is row.answer; called with
---{ field = } it returns such a reward.
---@param completion string|table
---@param row? table
---@return number|fun(text: string, row: table): number
function text.contains(completion, row) end

---1 when both are equal except for white space at the ends, else 0.  The reference is row.answer;
---called with { field = } it returns such a reward.
---@param completion string|table
---@param row? table
---@return number|fun(text: string, row: table): number
function text.equals(completion, row) end

---The similarity of two texts, 0 to 1: the Dice coefficient of their pairs of neighbouring bytes.
---The reference is row.answer; called with { field = } it returns such a reward.
---@param completion string|table
---@param row? table
---@return number|fun(text: string, row: table): number
function text.similarity(completion, row) end

---Constructors of token_fn: one reward per token, from comparing a completion with its row's
---data.target.
---@class rewards.dense
local dense = {}

---1 if the token equals the target's at its place, else 0, or -1 with mode = "signed"; 0 past the
---target's end.
---@param opts? { mode: "match"|"signed" }
---@return fun(c: grpo.Completion): number[]
function dense.match(opts) end

---The policy's log-probability, as a number, of the target's token at each place, or of the sampled
---token.
---@param opts? { of: "reference"|"sampled" }
---@return fun(c: grpo.Completion): number[]
function dense.logprob(opts) end

---The share of the target that was matched, 0 to 1: a reward for whole completions, or eval.metric.
---@param text string
---@param row table
---@param c grpo.Completion
---@return number
function dense.share(text, row, c) end
