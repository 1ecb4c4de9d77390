-- A row of preferences in JSON, in each of its forms: ids of at least one token that differ, or an
-- error of one line.
local core = require "grpo.core"
local expect = require "expect"
local preference_rows = require "grpo.preferences.rows"

local tokenizer = core.tokenizer_bytes()
local config = { data = { max_prompt_tokens = 64, too_long = "truncate_left" }, seed = 0,
  sampling = { max_new_tokens = 8 }, model = {}, turns = { format = "auto" } }

local function check_ids(ids)
  expect.truth(#ids > 0, "a text without tokens")
  for _, id in ipairs(ids) do
    expect.truth(math.type(id) == "integer" and id >= 0, "an id that is " .. tostring(id))
  end
end

return function(input)
  local ok, row = pcall(core.json_decode, input)
  if not ok or type(row) ~= "table" then return end
  pcall(preference_rows.prompt, row)
  for _, form in ipairs { "pair", "label", "whole" } do
    local prompt = { row = row, place = 1, number = 0, ids = { 49, 43 }, text = "1+", given = "1+" }
    local made, item = pcall(preference_rows.of, config, tokenizer, prompt, form, { dropped = 0 })
    if made and item then
      check_ids(item.prompt)
      for _, field in ipairs { "chosen", "rejected", "text" } do
        if item[field] then check_ids(item[field]) end
      end
      expect.truth(form ~= "label" or type(item.label) == "boolean", "a label")
    elseif not made then
      expect.refused(item, nil, "EARG")
    end
  end
end
