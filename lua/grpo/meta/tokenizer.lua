---@meta _
-- Tokenizers.  Ids are the vocabulary's own, from 0.

---@class grpo.Tokenizer
---@field bos integer|nil
---@field eos integer|nil
---@field pad integer|nil
---@field unk integer|nil
---@field sep integer|nil
---@field cls integer|nil
---@field mask integer|nil
---@field kind "bytes"|"chars"|"bpe"|"wordpiece"|"unigram"|"words"
---@field chat_template string|(fun(messages: grpo.Message[], opts: table): string)|nil Jinja source; may be set to another, to the name of one (the tokenizer's own templates, chatml, gemma, llama3, mistral, phi3) or to a function
---@operator len: integer
local Tokenizer = {}

---@param text string
---@param opts? { special?: boolean, parse_special?: boolean } special: add begin and end tokens (default false);
---parse_special: recognise special tokens inside the text (default true)
---@return integer[]
function Tokenizer:encode(text, opts) end

---@param ids integer[]
---@param opts? { skip_special?: boolean }
---@return string
function Tokenizer:decode(ids, opts) end

---Renders a conversation with tok.chat_template, Jinja or a Lua function.  If tools are given, the
---tokenizer's own template named tool_use is used.  It refuses messages that no template can show.
---@param messages grpo.Message[]
---@param opts? { generation_prompt?: boolean, continue_final_message?: boolean|string, tools?: table, documents?: table, vars?: table, chat_template?: string } continue_final_message:
---the text ends with the last message's content, or its field of this name, so that a completion
---continues it; vars: further variables of the template; chat_template: another one for this call
---@return string
function Tokenizer:chat(messages, opts) end

---@param token string as spelt in the vocabulary
---@return integer|nil
function Tokenizer:id(token) end

---@param id integer
---@return string|nil
function Tokenizer:token(id) end

---@param id integer
---@return boolean
function Tokenizer:is_special(id) end

---tokenizer.json and what belongs to it, in Hugging Face layout.
---@param dir string
function Tokenizer:save(dir) end

---@class grpo.Message
---@field role string
---@field content string|table[] or parts, { type = "text", text = }
