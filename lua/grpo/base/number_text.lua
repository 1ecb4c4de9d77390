-- number_text(v): tostring(v), except that a NaN gets no sign, which would depend on the machine,
-- and that a table or function is named by its type, because its address changes with each run.
return function(v)
  local kind = type(v)
  if kind == "number" then return v == v and tostring(v) or "nan" end
  return (kind == "nil" or kind == "boolean" or kind == "string") and tostring(v) or "a " .. kind
end
