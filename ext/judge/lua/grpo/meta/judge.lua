---@meta _

---The options of grpo.judge.  One of model, command and url says who is asked.
---@class grpo.JudgeOptions
---@field model? string|grpo.Model a model of this process: a path or a model; beside url a name there
---@field command? string|string[] a program that answers lines of JSON; a string is for the shell
---@field url? string an address that speaks OpenAI's protocol, such as http://127.0.0.1:8000/v1
---@field prompt? string|fun(c: grpo.Completion): (string|grpo.Message[]) the question: a text with {prompt}, {completion} and fields of the row, or a function; a command may do without
---@field verdicts? table<string, number> grades by verdict: the score is the mean grade, weighted by the verdicts' probabilities
---@field parse? fun(answer: string, c: grpo.Completion): (number|boolean|nil) the score that an answer says; nil: none
---@field max_new_tokens? integer tokens of an answer for parse; default 256
---@field dtype? string of a model of this process, as in grpo.model.load
---@field quantize? string of a model of this process
---@field compute? string of a model of this process
---@field tokenizer? grpo.Tokenizer|string of a model of this process
---@field key_env? string the variable that holds the key for url
---@field request? table further fields of a request to url
---@field in_flight? integer questions under way at once, 1 to 256; default 8
---@field timeout? number seconds until an answer must be there; default 60
---@field retries? integer attempts after the first one; default 2
---@field backoff? number seconds before the second attempt, twice as many before each further one; default 1
---@field on_error? "skip"|"stop"|number what follows if there is no answer: the reward does not apply, the reward fails, or it is this number; default "skip"

---A reward that asks a model, a program or an address: an entry of `rewards`.
---@class grpo.Judge
---@field prepare fun(cs: grpo.Completion[]) asks about all completions of a step together
---@field group_fn fun(texts: string[], row: table, cs: grpo.Completion[]): (number|userdata)[], table[]

---A judge.  Its answers are kept in the run's judge.jsonl, so that a resume does not ask again.
---@param options grpo.JudgeOptions
---@return grpo.Judge
function grpo.judge(options) end
