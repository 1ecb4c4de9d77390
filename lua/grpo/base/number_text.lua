-- number_text(v): tostring(v), but a NaN has no sign, which would depend on the machine.
return function(v)
  return v == v and tostring(v) or "nan"
end
