-- Texts that a model may write sooner or later and that reward functions seldom expect.

local degenerate_texts = {}

local function nested(open, close, depth)
  return open:rep(depth) .. "1" .. close:rep(depth)
end

-- { { name=, text= }, ... }.  huge: bytes of the longest ones, at least 100.
function degenerate_texts.texts(huge)
  huge = huge or 100000
  local function times(most, bytes) return math.max(1, math.min(most, huge // bytes)) end
  return {
    { name = "empty", text = "" },
    { name = "one space", text = " " },
    { name = "newlines only", text = "\n\r\n\n\t\n" },
    { name = "a NUL byte", text = "12\0<answer>3</answer>" },
    { name = "control characters", text = "\1\2\27[31m\27]0;title\7\8\127 42" },
    { name = "invalid UTF-8", text = "\xff\xfe<answer>\xc0\xaf7\xed\xa0\x80</answer>\x80" },
    { name = "UTF-8 cut in the middle", text = "the answer is 4\xe2\x82" },
    { name = "bidirectional overrides",
      text = "\u{202e}24\u{202c} \u{2066}<answer>42</answer>\u{2069}" },
    { name = "combining marks", text = "e" .. ("\u{0301}"):rep(times(500, 3)) .. " 5" },
    { name = "digits of other scripts", text = "٤٢ ４２ 四十二 ½ Ⅻ" },
    { name = "nested tags", text = nested("<answer>", "</answer>", times(2000, 17)) },
    { name = "tags that are never closed", text = ("<answer><thinking>"):rep(times(2000, 18)) },
    { name = "tags that were never opened", text = ("</answer></thinking>"):rep(times(2000, 21)) },
    { name = "nested brackets", text = nested("(", ")", times(5000, 5))
      .. nested("\\boxed{", "}", times(500, 17)) },
    { name = "magic characters of patterns",
      text = "%d+ [%a-] (.-)%1 %b() ^$ .*.*.* (a+)+$ \\d{99999}" },
    { name = "format directives", text = "%s%n%d %1000000d {} ${x} $(x) `x`" },
    { name = "a number of many digits",
      text = "<answer>" .. ("9"):rep(math.min(4000, huge - 17)) .. "</answer>" },
    { name = "almost numbers",
      text = "nan inf -inf 1e999 -0 0x7fffffffffffffff 1/0 1,,2 --3 . -" },
    { name = "a fraction by zero", text = "<answer>\\frac{1}{0}</answer> #### 0/0" },
    { name = "one letter, many times", text = ("a"):rep(huge) },
    { name = "many words", text = ("word "):rep(huge // 5) },
    { name = "many lines", text = ("1\n"):rep(huge // 2) },
    { name = "many numbers", text = ("<answer>12</answer> 3,456.78 "):rep(times(huge, 29)) },
    { name = "code", text = "os.exit(1) while true do end --[[ ]] return nil" },
  }
end

return degenerate_texts
