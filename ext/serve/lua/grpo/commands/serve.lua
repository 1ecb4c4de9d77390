local core = require "grpo.core"
local errors = require "grpo.base.errors"
local flags = require "grpo.commands.flags"
local generation_options = require "grpo.models.generation_options"
local loading = require "grpo.models.loading"
local model_paths = require "grpo.models.paths"
local model_run = require "grpo.runs.model_run"

local command = {
  name = "serve",
  summary = "serve a model, a run or an adapter to programs that speak OpenAI's protocol",
  arguments = { flags.model },
  flags = {
    { name = "host", type = "word", value = "ADDRESS", default = "127.0.0.1",
      doc = "listen at ADDRESS; another one than this machine's own wants --token" },
    { name = "port", type = "integer", min = 0, max = 65535, default = 8080,
      doc = "listen at port N; 0 takes one that is free" },
    { name = "token", type = "word", value = "TOKEN", instead_of = { "api-key" },
      doc = "serve only those who send 'Authorization: Bearer TOKEN'; GRPO_SERVE_TOKEN in the "
        .. "environment is the same, and is not seen in the list of processes" },
    { name = "name", type = "word", instead_of = { "served-model-name", "alias" },
      doc = "call the model NAME; default: its last folder" },
    { name = "sequences", type = "integer", min = 1, max = 64, default = 8,
      instead_of = { "parallel", "max-num-seqs" },
      doc = "decode N completions side by side; others wait" },
    { name = "max-prompt-tokens", type = "integer", min = 1, default = 4096,
      doc = "take prompts of at most N tokens" },
    flags.with(flags.max_new_tokens, { default = 1024 }),
    flags.quantize, flags.compute, flags.base, flags.memory, flags.threads,
  },
  about = {
    "Prints the address and serves until Ctrl-C: /v1/chat/completions, /v1/completions and "
      .. "/v1/models, with streaming, log-probabilities, tools, and token ids on request "
      .. "(\"return_token_ids\": true). ext/serve/README.md lists the fields.",
    "A request joins those that are being decoded. Its completion has the same bits as alone, for "
      .. "the same seed.",
    "Only this machine can reach it, but every user of this machine can; a page in a browser "
      .. "cannot.",
  },
}

-- The longest prompt and completion that the model's context has room for.
local function limits_of(model, o)
  local context = loading.context(model)
  local prompt = math.min(o.flags["max-prompt-tokens"], context - 1)
  return { sequences = o.flags.sequences, max_prompt_tokens = prompt,
    max_new_tokens = math.min(o.flags["max-new-tokens"], context - 1) }
end

local function sampling_of(place)
  local own = generation_options.own(place.path)
  own.temperature = own.temperature or 1.0
  return own
end

function command.run(o)
  local path = o.words[1]
  if core.isatty(2) then core.err(("loading %s ...\n"):format(path)) end
  local run = model_paths.run_of(path)
  local model, place = loading.open(path, { base = o.flags.base, quantize = o.flags.quantize,
    compute = o.flags.compute, grow = true })
  if not model.tokenizer then
    errors.raise_plain("ENOENT", "serve: %s has no tokenizer beside the model", place.path)
  end
  local template, odd = model_run.template(model.tokenizer, run)
  if odd then core.err("note: " .. odd .. "\n") end
  local alone = model_run.alone(path)
  if alone then core.err("note: " .. alone .. "\n") end
  core.signals_install()
  local server = require("grpo.serve").new { model = model, template = template,
    name = o.flags.name or path:gsub("/+$", ""):match("[^/]*$"),
    variables = model_run.option(run, "model.chat_template_kwargs") or {},
    sampling = sampling_of(place), limits = limits_of(model, o),
    listen = { address = o.flags.host, port = o.flags.port,
      token = o.flags.token or os.getenv("GRPO_SERVE_TOKEN") } }
  local host = o.flags.host:find(":", 1, true) and "[" .. o.flags.host .. "]" or o.flags.host
  core.out(("http://%s:%d/v1\n"):format(host, server.http:port()))
  if core.isatty(2) then core.err("Ctrl-C ends it\n") end
  return server:run()
end

return command
