---@meta _

---The options of grpo.mcp.  One of command and url says which server has the tools.
---@class grpo.McpOptions
---@field command? string|string[] a program that speaks the Model Context Protocol by lines; a string is for the shell
---@field url? string a server that speaks it over HTTP, such as http://127.0.0.1:3001/mcp
---@field key_env? string the variable that holds the key for url
---@field tools? string[] the names of the tools that are taken; default: all
---@field timeout? number seconds until the server must answer; default 60
---@field max_result_bytes? integer a longer result is cut for the model; default 16384

---The tools of a server of the Model Context Protocol: a table for `tools`, or for an entry of it.
---@param options grpo.McpOptions
---@return table<string, grpo.Tool>
function grpo.mcp(options) end
