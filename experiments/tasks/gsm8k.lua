-- tasks/gsm8k.lua - real GSM8K rows, { question =, answer = "...#### 72" }.

local answer = require "grpo.answer"

local gsm8k = {}

--- The system message of a chat model.
gsm8k.system = [[
Solve the problem step by step. Answer in exactly this form:
<thinking>
your steps
</thinking>
<answer>
the number
</answer>]]

--- The prompt of a model without a chat template.
---@param row { question: string }
---@return string
function gsm8k.prompt(row) return row.question .. "\n" end

--- The prompt of a model with one.
---@param row { question: string }
---@return { role: string, content: string }[]
function gsm8k.messages(row)
  return {
    { role = "system", content = gsm8k.system },
    { role = "user", content = row.question },
  }
end

--- The row's own solution rewritten into the layout: calculator annotations <<...>> go, the final
--- number moves, without its commas, into <answer>.
---@param row { answer: string }
---@return string
function gsm8k.solution(row)
  local number = answer.hashed(row.answer)
  if not number then error("gsm8k.solution: the row's answer has no line '#### N'", 2) end
  local last = row.answer:reverse():find("####", 1, true)
  local steps = row.answer:sub(1, #row.answer - last - 3):gsub("<<[^<>]*>>", "")
  return ("<thinking>\n%s\n</thinking>\n<answer>\n%s\n</answer>"):format(
    answer.trim(steps), (number:gsub(",", "")))
end

return gsm8k
