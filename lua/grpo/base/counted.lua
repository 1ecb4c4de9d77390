-- counted(n, "step"): "1 step", "2 steps".
return function(n, what)
  return ("%d %s%s"):format(n, what, n == 1 and "" or "s")
end
