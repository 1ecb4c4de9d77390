-- The extension bigram: reference = "bigram".

return {
  references = { { name = "bigram", make = function(config, tokenizer, model)
    return require("grpo.loop.bigram_reference").of(config, tokenizer, model)
  end } },
}
