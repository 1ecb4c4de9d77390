-- The rows of bench/tokenizer as a table: medians, and how many times faster we are.
do
  local order, cases = {}, {}
  for line in io.lines(os.getenv("ROWS")) do
    local name, program, way, clock, cpu, count,
      sum = line:match("^(%S+)\t(%S+)\t(%S+)\t(%S+)\t(%S+)\t(%S+)\t(%S+)$")
    local key = name and name .. "\t" .. way
    if key and not cases[key] then
      cases[key] = { name = name, way = way }
      order[#order + 1] = key
    end
    if key then
      local case = cases[key]
      case[program] = case[program] or { clock = {}, cpu = {}, ids = count .. " " .. sum }
      table.insert(case[program].clock, tonumber(clock))
      table.insert(case[program].cpu, tonumber(cpu))
    end
  end
  local median = require "grpo.statistics".median
  print("| tokenizer | text | grpo, MB/s (core) | tokenizers, MB/s (core) "
    .. "| ratio by core time | ids |")
  print("| --- | --- | --- | --- | --- | --- |")
  for _, key in ipairs(order) do
    local case = cases[key]
    local a, b = case.grpo, case.tokenizers
    print(("| %s | %s | %.1f (%.1f) | %.1f (%.1f) | %.1f | %s |")
      :format(case.name, case.way, median(a.clock),
      median(a.cpu), median(b.clock), median(b.cpu), median(a.cpu) / median(b.cpu),
      a.ids == b.ids and "the same" or "NOT the same"))
  end
end
