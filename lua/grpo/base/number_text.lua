-- number_text(v): tostring(v), but a NaN has no sign, which would depend on the machine, and of a
-- value with an address the type is told.
return function(v)
  local kind = type(v)
  if kind == "number" then return v == v and tostring(v) or "nan" end
  return (kind == "nil" or kind == "boolean" or kind == "string") and tostring(v) or "a " .. kind
end
