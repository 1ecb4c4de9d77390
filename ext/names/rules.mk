# from-trl.md, which `make options` writes
.PHONY: names-page
names-page: grpo
	./grpo repl < ext/names/gen-page.lua
options: names-page
