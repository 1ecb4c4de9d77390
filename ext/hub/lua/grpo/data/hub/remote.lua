-- Requests to the Hub: its address, the token, redirects, repetitions after faults.
--
-- The token is sent to the host that HF_ENDPOINT names and to no other, and it is never shown.

local core = require "grpo.core"
local errors = require "grpo.base.errors"

local remote = {}
local Remote = { __index = remote }

local MAX_HOPS, MAX_ERRORS, LONGEST_WAIT, MOST_CUTS = 5, 5, 300, 1000
local ENOUGH_BYTES = 1 << 20
local STEP_SECONDS = 0.1

local function variable(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

-- "https://host:port" of an address, nil if it is not one of HTTP.
local function origin(url)
  local scheme, host = url:match("^(https?)://([^/?#]+)")
  if not scheme or host:find("[@%s%c]") then return nil end
  host = host:lower()
  if not host:find(":%d+$") then host = host .. (scheme == "https" and ":443" or ":80") end
  return scheme .. "://" .. host
end

local function is_loopback(url)
  local host = url:match("^https?://([^/:]+)")
  return host == "localhost" or host and host:find("^127%.%d+%.%d+%.%d+$") ~= nil
end

-- The token of the environment, or that which the Hub's own program has saved.
local function read_token()
  local given = variable "HF_TOKEN" or variable "HUGGING_FACE_HUB_TOKEN"
  local home = variable "HF_HOME" or variable "XDG_CACHE_HOME" and variable "XDG_CACHE_HOME"
    .. "/huggingface" or (variable "HOME" or "") .. "/.cache/huggingface"
  local path = (variable "HF_TOKEN_PATH" or home .. "/token"):gsub("^~/",
    (variable "HOME" or "") .. "/")
  local text = given or core.fs.exists(path) and core.fs.read(path) or ""
  text = text:match("^%s*(.-)%s*$")
  if text == "" then return nil end
  if text:find("[%c%s]") then
    errors.raise_plain("EARG", "%s: the token holds a blank or a control character",
      given and "HF_TOKEN" or path)
  end
  return text
end

-- show: { note = function(text) }
function remote.new(show)
  local endpoint = (variable "HF_ENDPOINT" or "https://huggingface.co"):gsub("/+$", "")
  if not origin(endpoint) then
    errors.raise_plain("EARG", "HF_ENDPOINT=%s: want an address such as https://huggingface.co",
      endpoint)
  end
  local self = setmetatable({ endpoint = endpoint, show = show }, Remote)
  self.token = read_token()
  if self.token and not endpoint:find("^https:") and not is_loopback(endpoint) then
    self.token = nil
    show.note(("note: the token is not sent, because %s does not encrypt"):format(endpoint))
  end
  return self
end

-- Writes text as one part of an address; keep: characters that stay.
function remote.escaped(text, keep)
  return (text:gsub("[^%w%-_.~" .. (keep or "") .. "]", function(c)
    return ("%%%02X"):format(c:byte())
  end))
end

local function headers_of(text)
  local headers = {}
  for name, value in text:gmatch("([^\n]-): ([^\n]*)\n") do headers[name] = value end
  return headers
end

-- Where an answer redirects to.
local function target_of(url, response)
  local to = response.headers.location or ""
  if to:find("^/[^/]") then to = url:match("^https?://[^/?#]+") .. to end
  if not origin(to) or to:find("[%c%s]") then return nil end
  if url:find("^https:") and not to:find("^https:") and not is_loopback(to) then return nil end
  return to
end

-- One request, without repetitions.  o: { path =, offset =, max =, on_bytes = function(n) }.
-- Returns { status =, headers =, body =, problem =, hopeless = }.
function remote:once(url, o)
  local headers = { "User-Agent: grpo/" .. core.version().version, "Accept-Encoding: identity" }
  if self.token and origin(url) == origin(self.endpoint) then
    headers[#headers + 1] = "Authorization: Bearer " .. self.token
  end
  local transfer <close> = errors.must(core.http_get { url = url, headers = headers, path = o.path,
    offset = o.offset, max = o.max })
  repeat
    local done, bytes, code = transfer:step(STEP_SECONDS)
    if done == nil then errors.raise_plain(code, "%s", bytes) end
    if o.on_bytes then o.on_bytes(bytes) end
  until done
  local response = transfer:response()
  if o.path and not response.problem then errors.must(transfer:sync()) end
  response.headers = headers_of(response.headers)
  return response
end

local redirects = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }

-- Follows redirects.  The second result is the first answer, in which the Hub describes a file that
-- another host sends.
function remote:follow(url, o)
  local first
  for _ = 1, MAX_HOPS do
    local response = self:once(url, o)
    first = first or response
    if not redirects[response.status] or response.problem then return response, first end
    url = target_of(url, response)
    if not url then
      return { status = 0, headers = {}, hopeless = true,
        problem = "the server redirects to an address that is not followed" }, first
    end
  end
  return { status = 0, headers = {}, hopeless = true,
    problem = "the server redirects in a circle" }, first
end

-- Is it worth asking again?
local function may_pass(response)
  if response.problem then return not response.hopeless end
  local status = response.status
  return status == 408 or status == 429 or status == 500 or status >= 502 and status <= 504
end

-- A sentence about a failed request for `what`.
local function reason(response)
  if response.problem then return response.problem end
  return ("the server answered %d"):format(response.status)
end

-- The seconds that a server asks to wait; nil: it does not say, or by a date.
local function asked_wait(response)
  local text = response.headers and response.headers["retry-after"] or ""
  return tonumber(text:match("^%s*(%d+)%s*$"))
end

-- Seconds to wait before the n-th repetition.
local function wait_of(response, n)
  local asked = asked_wait(response)
  local first = tonumber(variable "GRPO_RETRY_SECONDS") or 0.5
  return math.max(asked or 0, math.min(first * 2 ^ (n - 1), LONGEST_WAIT)), asked
end

-- Follows redirects, and repeats requests after faults that may pass.  A cut transfer into a file
-- continues where it was; what it brought counts as progress.  what: names the file in messages.
function remote:get(url, what, o)
  local failures, cuts = 0, 0
  while true do
    local before = o.path and core.fs.size(o.path) or 0
    o.offset = o.path and before or nil
    local response, first = self:follow(url, o)
    if response.status == 416 and o.path then
      errors.must(core.fs.remove_tree(o.path)) -- it was of another size
      response.problem = "the server did not have the rest of the file"
    elseif not may_pass(response) then
      return response, first
    end
    local grown = o.path and (core.fs.size(o.path) or 0) - before or 0
    cuts = cuts + 1
    failures = grown >= ENOUGH_BYTES and 1 or failures + 1
    local wait, asked = wait_of(response, failures)
    if failures > MAX_ERRORS or cuts > MOST_CUTS then return response, first end
    if asked and asked > LONGEST_WAIT then
      errors.raise_plain("EIO", "%s: %s and asks to wait %.16g seconds; try again later", what,
        reason(response), asked)
    end
    self.show.note(("%s: %s; trying again in %.3g s"):format(what, reason(response), wait))
    core.process.sleep(wait)
  end
end

-- Raises what the last answer means for somebody who asked for `what`.  about: { name =, kind = }
function remote:refuse(response, what, about)
  local status = response.status
  local code = response.headers and response.headers["x-error-code"]
  local a_token = self.token and "the token may not read it"
    or "no token is set (HF_TOKEN, or the file that 'hf auth login' writes)"
  if response.problem then errors.raise_plain("EIO", "%s: %s", what, response.problem) end
  if code == "GatedRepo" or status == 403 then
    errors.raise_plain("EARG", "%s: the Hub refuses it (%d): accept its terms at %s/%s, and %s",
      what, status, self.endpoint, about.path, a_token)
  end
  if status == 401 then
    errors.raise_plain("EARG", "%s: the Hub refuses it (401): it is private or does not exist; %s",
      what, a_token)
  end
  if code == "RevisionNotFound" then
    errors.raise_plain("ENOENT", "%s: the Hub does not have this revision", what)
  end
  if status == 404 then
    errors.raise_plain("ENOENT", "%s: the Hub does not have it (404)%s", what,
      about.kind == "model" and "; is it a dataset (--dataset)?" or "; is it a model?")
  end
  errors.raise_plain("EIO", "%s: the server answered %d", what, status)
end

-- Returns the body of an answer to a request of the interface, and its headers.
function remote:text(url, what, about, max)
  local response = self:get(url, what, { max = max })
  if response.status ~= 200 or response.problem then self:refuse(response, what, about) end
  return response.body, response.headers
end

-- Is this an address of the endpoint's host?
function remote:is_own(url)
  return origin(url) == origin(self.endpoint)
end

return remote
