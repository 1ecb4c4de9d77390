-- planned_steps(config): how many steps a stage has, train.steps, or else what train.epochs makes
-- of the rows.
return function(config)
  local train = config.train
  if train.steps then return train.steps end
  if train.epochs == 0 then return 0 end
  return math.max(1, math.floor(train.epochs * #config.data.train / train.prompts_per_step))
end
