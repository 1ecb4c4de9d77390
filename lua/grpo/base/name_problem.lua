-- name_problem(name): says that a name, which stands in lines and on screens, has a control
-- character; nil if it has none.
return function(name)
  if not (name:find("%c") or name:find("\194[\128-\159]")) then return nil end
  return ("%q, has a control character"):format((name:gsub("\n", "\\n")))
end
