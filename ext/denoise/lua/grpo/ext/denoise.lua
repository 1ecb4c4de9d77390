-- The extension denoise: stages of kind = "denoise", which train a model to fill in masks, and
-- m:unmask, which samples from it.

return {
  stages = { { name = "denoise" } },
  options = {
    { "train.denoise.mask_ratio", "schedule|list",
      "share of a text's tokens that are masked: a number or schedule; or { low, high }, from "
      .. "which each row of a step samples its own",
      default = { 0.1, 1.0 }, min = 0, max = 1, live = true },
    { "train.denoise.random", "number",
      "share of the masked tokens that become a random token instead of the mask (BERT: 0.1)",
      default = 0.0, min = 0, max = 1, live = true },
    { "train.denoise.keep", "number",
      "share of the masked tokens that stay as they are (BERT: 0.1)",
      default = 0.0, min = 0, max = 1, live = true },
    { "train.denoise.mask_prompt", "boolean",
      "mask tokens of data.prompt's text too, not of data.target's alone", default = true },
    { "train.denoise.sample_steps", "int",
      "forwards of a sample in the log, as steps of m:unmask",
      default = 64, min = 1, max = 1000000, live = true },
    { "train.denoise.sample_order", "enum",
      "order in which a sample in the log is filled in, as of m:unmask",
      default = "random", choices = { "confidence", "random", "left" }, live = true },
    { "eval.mask_ratio", "number",
      "share of the held-out tokens that are masked, for kind=\"denoise\"",
      default = 0.15, min = 0, max = 1, live = true },
  },
}
