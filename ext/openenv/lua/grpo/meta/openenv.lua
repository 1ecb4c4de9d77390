---@meta _

---The options of grpo.openenv.
---@class grpo.OpenenvOptions
---@field url string the server's address, such as http://127.0.0.1:8000; ws:// and wss:// are the same
---@field key_env? string the variable that holds the key, sent as Authorization: Bearer
---@field action string|fun(text: string, c: grpo.TurnContext): table the field of the action that is the model's text, or a function that returns the action
---@field observation string|fun(observation: table): string? the field of the observation that the model sees, or a function that returns its text
---@field reset? fun(row: table, rng: fun(): number): table the parameters of a reset; default: a seed, which is added in any case
---@field timeout? number seconds until the server must answer; default 60
---@field retries? integer further attempts at a reset, each in a session of its own; default 4
---@field backoff? number seconds before the second attempt, twice as many before each further one; default 0.5

---An environment behind an address that speaks OpenEnv's protocol: a value for `environment`.
---@param options grpo.OpenenvOptions
---@return grpo.Environment
function grpo.openenv(options) end
