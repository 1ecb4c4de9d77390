-- planned_steps(config): how many steps a stage has, train.steps, or else what train.epochs makes
-- of the rows.  A step that the rows do not fill is made too, and takes rows of the next pass.

local ROUNDING = 1e-9 -- of epochs such as 0.1, so that it makes no further step

return function(config)
  local train = config.train
  if train.steps then return train.steps end
  if train.epochs == 0 then return 0 end
  local steps = train.epochs * #config.data.train / train.prompts_per_step
  return math.max(1, math.ceil(steps * (1 - ROUNDING)))
end
