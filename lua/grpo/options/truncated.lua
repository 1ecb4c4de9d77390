-- Sampling whose filters (top_p, top_k, min_p, a grammar) leave tokens out: how many can be left,
-- and what `grpo check` says of it.  docs/algorithms.md, "Truncated sampling", has the formulas.

local truncated = {}

local ANY = (1 << 31) - 1 -- more than any vocabulary has

local function is_filtered(sampling)
  return sampling.temperature > 0
    and (sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0 or sampling.grammar
    or sampling.regex)
end

-- The most tokens in a set that is recorded for training; 0: none is.
function truncated.mask_tokens(sampling)
  if not sampling.renormalize or not is_filtered(sampling) then return 0 end
  return sampling.top_k > 0 and sampling.top_k or ANY
end

-- The filters as a list in words; "" if there are none.
function truncated.filters_text(sampling)
  local list = {}
  if sampling.grammar or sampling.regex then
    list[1] = sampling.grammar and "a grammar" or "a regular expression"
  end
  if sampling.top_k > 0 then list[#list + 1] = ("top_k = %d"):format(sampling.top_k) end
  if sampling.top_p < 1 then list[#list + 1] = ("top_p = %g"):format(sampling.top_p) end
  if sampling.min_p > 0 then list[#list + 1] = ("min_p = %g"):format(sampling.min_p) end
  return table.concat(list, ", ")
end

-- Returns sentences about training on what these options sample.  bytes: the most that the sets of
-- tokens take.
function truncated.notes(config, bytes)
  local sampling, notes = config.sampling, {}
  if is_filtered(sampling) and not sampling.renormalize then
    notes[1] = ("sampling has filters (%s) and sampling.renormalize is false, so a step trains "
      .. "log-probabilities over all tokens, as TRL does: the gradient is not that of what is "
      .. "sampled, by the probability that the filters leave out")
      :format(truncated.filters_text(sampling))
  elseif is_filtered(sampling) then
    notes[1] = ("sampling has filters (%s), so a step trains the distribution that they leave: "
      .. "every log-probability and entropy is renormalised over the tokens that each token was "
      .. "sampled from, and the others get no gradient there; these sets take at most %d MiB%s")
      :format(truncated.filters_text(sampling), -(-bytes // (1 << 20)),
      sampling.top_k > 0 and "" or ", which sampling.top_k lowers")
    if config.reference then
      notes[2] = "the reference is not filtered, so its KL is above 0 from the first step on, by "
        .. "the probability that the filters leave out"
    end
  end
  if sampling.repetition_penalty ~= 1 and sampling.temperature > 0 then
    notes[#notes + 1] = ("sampling.repetition_penalty = %g changes which tokens are sampled, but "
      .. "no log-probability that a step trains on, so that the gradient is not that of what is "
      .. "sampled; 1 is exact"):format(sampling.repetition_penalty)
  end
  return notes
end

return truncated
