-- Our half of bench/tokenizer: one line for each way to give the text, in TSV:
-- tokenizer, program, way, MB/s by the clock, MB/s by core time, number of ids, their checksum.
do
  local grpo = require "grpo"
  local core = require "grpo.core"
  local folder = os.getenv("TOKENIZER")
  local tok = grpo.tokenizer.load(folder)
  local file = assert(io.open(os.getenv("TEXT"), "rb"))
  local text = file:read("a")
  file:close()
  local pieces, lines, size = {}, {}, 0
  for line in text:gmatch("[^\n]*\n?") do
    lines[#lines + 1] = line
    size = size + #line
    if size > 2000 then
      pieces[#pieces + 1] = table.concat(lines)
      lines, size = {}, 0
    end
  end
  if size > 0 then pieces[#pieces + 1] = table.concat(lines) end
  local function pass(list, each)
    for i = 1, #list do
      local ids = tok:encode(list[i])
      if each then each(ids) end
    end
  end
  for _, way in ipairs { "pieces", "whole" } do
    local list = way == "pieces" and pieces or { text }
    local count, sum = 0, 0
    pass(list, function(ids)
      count = count + #ids
      for _, id in ipairs(ids) do sum = (sum * 31 + id) % 1000003 end
    end)
    for _ = 1, tonumber(os.getenv("REPEATS")) do
      local clock, cpu = core.clock(), os.clock()
      pass(list)
      clock, cpu = core.clock() - clock, os.clock() - cpu
      print(table.concat({ folder:match("[^/]+$"), "grpo", way, #text / clock / 1e6,
        #text / cpu / 1e6, count, sum }, "\t"))
    end
  end
end
