-- tasks/plain.lua - plain prose, which shows how much of its English a trained model forgot.

local plain = {}

-- Written for this file, so that no model has seen it.
plain.texts = {
  [[The ferry leaves the harbour at six in the morning, when the gulls are already loud and the
bakery on the quay has just opened its door. Most of the passengers are on their way to work on
the other side of the bay. They carry their coffee carefully over the narrow bridge and look for
a seat out of the wind. In winter the crossing takes twenty minutes longer, because the captain
keeps away from the rocks as long as it is dark.]],
  [[A loaf of bread needs only four things: flour, water, salt and time. The last of them is the one
that people forget. Dough that rests overnight in a cool place tastes better than dough that was
hurried, since the yeast has had the chance to turn some of the starch into sugar. In the
morning it is shaped, left alone for another hour, and baked in a very hot oven until the crust
sounds hollow.]],
  [[When the old bridge was closed for repairs, the two halves of the town began to live apart.
Children who had walked to school in ten minutes now took a bus for half an hour. The market
lost a third of its customers, and the cinema on the far bank changed its programme to suit
those who were left. After two years the bridge opened again, but some of the new habits stayed.]],
  [[Stars look as if they were fixed, yet every one of them moves. The changes are too slow for a
human life, which is why the figures that sailors used three thousand years ago are still in the
sky. A photograph taken today and another one taken a century ago, laid over each other, show
small shifts for the nearest stars and none at all for the others. From such pairs of pictures
the first distances were worked out.]],
  [[My grandmother kept her letters in a tin box under the stairs. She had sorted them by the person
who had written them and not by date, so that opening the box was like entering a room in which
everybody talks at once. There was the cousin who had gone to sea, the friend from school who
complained of her neighbours, and a man whose name nobody in the family could explain.]],
  [[To find out whether a well is safe, a sample of its water is taken in the early morning, before
anyone has used the pump. The bottle is filled to the brim and kept cool on its way to the
laboratory. There it is tested for salts, for metals and for bacteria. A single bad result does
not mean much; if the second sample shows the same, the well is closed and the source of the
trouble is looked for uphill.]],
}

--- The mean loss of a model on these texts.
---@param model grpo.Model
---@return number nats per token
function plain.loss(model)
  local total, tokens = 0, 0
  for _, text in ipairs(plain.texts) do
    local ids = model.tokenizer:encode((text:gsub("\n", " ")))
    local scored = model:score({ { ids[1] } }, { table.move(ids, 2, #ids, 1, {}) })
    total, tokens = total - scored.logp:sum():item(), tokens + #ids - 1
  end
  return total / tokens
end

return plain
