-- The extension web: a run that a host drives step by step (grpo/web/init.lua), as the page does.
return {}
