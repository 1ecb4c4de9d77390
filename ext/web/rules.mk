# grpo.js and grpo.wasm: the program for a browser, by Debian's emscripten, in a tree of its own.
# WEB_EXT: the extensions in it, of which none needs processes, sockets or libraries.
WEB       := build/web
WEB_TREE  := build/wasm
WEB_EXT   ?= bigram denoise names preferences verl web
WEB_FLAGS := -msimd128 -sSUPPORT_LONGJMP=wasm

# ---- in the tree that `make web-module` makes by the second make below ----
ifeq ($(BUILD),$(WEB_TREE))
$(OBJ)/kern/generic.o: KERNFLAGS := -O3
WEB_OBJS := $(patsubst ext/%.c,$(BUILD)/obj/ext/%.o,$(wildcard ext/web/host/*.c))
WEB_CALLS := $(foreach f,open start advance events line save stop close,_web_$(f))
empty :=
comma := ,
comma_list = $(subst $(empty) $(empty),$(comma),$(strip $(1)))
# A recursion of Lua ends at its own limit, in a fifth of the stack that browsers give.
WEB_LINK := -sMODULARIZE -sEXPORT_NAME=Grpo -sENVIRONMENT=web,worker,node -sFORCE_FILESYSTEM -sDYNAMIC_EXECUTION=0 \
  -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sTOTAL_STACK=4MB -sNODEJS_CATCH_EXIT=0 -sNODEJS_CATCH_REJECTION=0 \
  -sEXPORTED_RUNTIME_METHODS=FS,cwrap -sEXPORTED_FUNCTIONS=$(call comma_list,$(WEB_CALLS))
$(BUILD)/grpo.js: $(BUILD)/obj/embedded.o $(WEB_OBJS) $(EXT_OBJS) $(call libs_upto,script) ext/web/rules.mk ext/web/host/files.js
	$(Q)$(CC) $(OPT) --no-entry $(WEB_LINK) -o $@ $(filter %.o,$^) \
	  --js-library ext/web/host/files.js -Wl,--start-group $(call libs_upto,script) -Wl,--end-group $(PKG_LIBS)
endif

## make web-module      build/web/grpo.js and grpo.wasm, for a page; needs emscripten
.PHONY: web-module
web-module:
	@ext/web/build-module '$(WEB)' '$(WEB_TREE)' '$(WEB_EXT)' '$(WEB_FLAGS)'

## make web             build/web: the page, for any web server (ext/web/README.md); needs emscripten, and npm for its editor
.PHONY: web
web: web-module
	@ext/web/build-page '$(WEB)'
