# grpo: one Makefile for everything.  `make help` lists what it does.
.DEFAULT_GOAL := all
SHELL := /bin/bash

# ---- extensions: ext/NAME, each with its C, lua/, tests/ and a README.  EXT= builds the core alone, EXT="gguf hub" what is named.
# sort: wildcard's own order depends on the locale
EXT ?= $(sort $(patsubst ext/%/README.md,%,$(wildcard ext/*/README.md)))
UNKNOWN_EXT := $(filter-out $(patsubst ext/%/README.md,%,$(wildcard ext/*/README.md)),$(EXT))
ifneq ($(UNKNOWN_EXT),)
$(error there is no extension '$(firstword $(UNKNOWN_EXT))'; take names of ext/)
endif
# ext/NAME/libraries: a line for each library that the extension can load, "NAME=PACKAGE DEBIAN"
EXT_LIBRARIES := $(foreach e,$(EXT),$(if $(wildcard ext/$(e)/libraries),$(shell cat ext/$(e)/libraries)))

# ---- what to build: MODE=release|debug|asan|tsan|cov, each in its own tree --
MODE   ?= release
BUILD  ?= build/$(MODE)
CC     ?= cc
OBJCOPY ?= objcopy
STRIP  ?= strip
PYTHON :=
PREFIX ?= /usr/local

# For another machine: make CROSS=aarch64-linux-gnu- [SYSROOT=DIR], in a tree of its own (tools/check-neon).
HOSTCC := $(CC)
ifneq ($(CROSS),)
CC     := $(CROSS)gcc
AR     := $(CROSS)ar
CXX    := $(CROSS)g++
OBJCOPY := $(CROSS)objcopy
STRIP  := $(CROSS)strip
PKG_CONFIG := $(shell command -v $(CROSS)pkg-config)
BUILD  := build/$(CROSS)$(MODE)
endif
ifneq ($(SYSROOT),)
CC     += --sysroot=$(abspath $(SYSROOT))
empty :=
PKG_PATH := $(subst $(empty) $(empty),:,$(abspath $(wildcard $(SYSROOT)/usr/lib/*/pkgconfig $(SYSROOT)/usr/share/pkgconfig)))
PKG_CONFIG := env PKG_CONFIG_SYSROOT_DIR=$(abspath $(SYSROOT)) PKG_CONFIG_LIBDIR=$(PKG_PATH) pkg-config
endif
PKG_CONFIG := $(or $(PKG_CONFIG),pkg-config)
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null || uname -m)))

PACKAGES := lua5.4 libpcre2-8 libcjson
DEBIAN   := build-essential pkg-config liblua5.4-dev libpcre2-dev libcjson-dev

# pkg-config is asked lazily (=), so that `make deps test` sees what deps installed.
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null))$(PKG_CFLAGS)
PKG_LIBS   = $(eval PKG_LIBS := $$(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null))$(PKG_LIBS)
# Libraries that src/os/library.c loads when they are asked for: NAME=PACKAGE gives -DGRPO_HAVE_NAME where the package's
# header is, which is all that is needed here.
LOADED     := $(foreach w,$(EXT_LIBRARIES),$(if $(findstring =,$(w)),$(w)))
loaded      = p=$(1); $(PKG_CONFIG) --exists $${p\#*=} && echo -DGRPO_HAVE_$${p%%=*} && $(PKG_CONFIG) --cflags $${p\#*=};
LOADED_HAVE = $(eval LOADED_HAVE := $$(shell $$(foreach l,$$(LOADED),$$(call loaded,$$(l)))))$(LOADED_HAVE)
HAVE       = $(LOADED_HAVE)
COMMIT     = $(eval COMMIT := $$(shell tools/source-commit))$(COMMIT)
VERSION    := 0.1.0

WARN  := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
ifdef CI
WARN  += -Werror
endif
# the same bytes wherever the sources are (tools/check-reproducible)
OPT_release := -O2 -g -ffile-prefix-map=$(CURDIR)=.
OPT_debug   := -O0 -g3 -DGRPO_DEBUG
# -Warray-bounds misjudges loops that a sanitizer has touched
OPT_asan    := -O1 -g -DGRPO_PLAIN_EXIT -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined \
  -Wno-error=array-bounds
OPT_tsan    := -O1 -g -DGRPO_PLAIN_EXIT -fsanitize=thread -fno-omit-frame-pointer
# Counters that are not atomic: threads may lose counts, but never make a reached line look unreached.
OPT_cov     := -O0 -g -DGRPO_PLAIN_EXIT --coverage -fprofile-update=single
OPT   := $(OPT_$(MODE))
ifeq ($(OPT),)
$(error MODE=$(MODE) is unknown: use release, debug, asan, tsan or cov)
endif
# for shared objects and threads; nothing where there are neither (ext/web)
SHARED_CODE ?= -fPIC -pthread
# -ffp-contract=off: a fused multiply-add happens where the source says so, nowhere else.
BASE_CFLAGS = -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -fvisibility=hidden $(SHARED_CODE) -fno-math-errno -fno-trapping-math \
              -ffp-contract=off $(WARN) $(OPT) -MMD -MP $(CPPFLAGS) $(CFLAGS)
# --as-needed: OpenBLAS is loaded by src/kern/blas.c when it is asked, not at every start.
LINK  = $(CC) $(OPT) -pthread -Wl,--as-needed $(LDFLAGS)
LIBS  = $(PKG_LIBS) -lm -ldl
# What grpo.so is linked with: all but Lua, which is the host's.
MODULE_LIBS = $(filter-out -llua%,$(PKG_LIBS)) -lm -ldl

# What src is compiled to, with any extensions or none: a second build can take the first one's, as .ci/run does.
OBJ   ?= $(BUILD)/obj

# ---- layers, lowest first; each is an archive and may use those before it ---
LAYERS := base os formats kern grad text model checkpoint rl script
OTHERS  := $(if $(filter x86_64,$(MACHINE)),,src/kern/x86/%) $(if $(filter aarch64,$(MACHINE)),,src/kern/arm/%)
src_of  = $(filter-out $(OTHERS) %.inc.c,$(sort $(wildcard src/$(1)/*.c src/$(1)/*/*.c)))
objs_of = $(patsubst src/%.c,$(OBJ)/%.o,$(call src_of,$(1)))
# The archives that a layer's tests link, highest first: its own and those below it.
BELOW   :=
$(foreach l,$(LAYERS),$(eval BELOW := $(l) $(BELOW))$(eval upto_$(l) := $(BELOW)))
upto_base := $(upto_formats)# whose tests read their vectors with JSON
upto    = $(upto_$(1))
libs_upto = $(foreach l,$(call upto,$(1)),$(BUILD)/lib$(l).a)

EXT_OBJS := $(foreach e,$(EXT),$(patsubst %.c,$(BUILD)/obj/%.o,$(sort $(wildcard ext/$(e)/*.c))))
# a file that changes when the list does: what is linked and embedded depends on it
$(BUILD)/extensions: need
	@mkdir -p $(@D)
	@echo "$(EXT)" | cmp -s - $@ || echo "$(EXT)" >$@
$(BUILD)/obj/ext/%.o: ext/%.c | need
	@mkdir -p $(@D)
	$(Q)$(CC) $(HAVE) $(BASE_CFLAGS) -Iext $(PKG_CFLAGS) -c $< -o $@

PROGRAM := $(BUILD)/grpo
# What an extension builds beside the program: its rules.mk adds to this, and says how it is made.
EXT_PRODUCTS :=
BENCH_PROGRAM := $(BUILD)/bench/grpo-bench

.PHONY: all
all: grpo
.PHONY: grpo
grpo: $(PROGRAM) ext-products
ifeq ($(MODE)$(CROSS),release)
	@ln -sfn $(PROGRAM) grpo
ifeq ($(or $(MAKECMDGOALS),all),all)
	@echo "next: ./grpo run experiments/recipes/demo.lua   a model learns sums from rewards, in seconds; or: ./grpo init my-project"
endif
endif

# All cores, unless -j says otherwise.
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

# ---- what must be there ------------------------------------------------------
# `make deps test`: nothing is compiled before the packages are there, also with -j.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
need: deps
endif
.PHONY: need
need:
	@command -v $(lastword $(PKG_CONFIG)) >/dev/null || { echo "grpo: pkg-config is missing; run 'make deps' (Debian, Ubuntu) or install it" >&2; exit 1; }
	@for p in $(PACKAGES); do $(PKG_CONFIG) --exists $$p || \
	  { echo "grpo: the library '$$p' is missing; run 'make deps', or install its development package" >&2; exit 1; }; done

# Kernels of an instruction set are compiled with these flags and nothing else is; x86 chooses at run time.
# Loops begin on a line of instructions: where the linker puts a tile's would change its speed by 5 %.
KERN_OPT ?= -O3
KERN_OPT += -falign-functions=64 -falign-loops=64
$(OBJ)/kern/x86/portable_avx2.o: KERNFLAGS := $(KERN_OPT) -mavx2 -mf16c
$(OBJ)/kern/x86/portable_avx512.o: KERNFLAGS := $(KERN_OPT) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mf16c -mprefer-vector-width=512
$(OBJ)/kern/x86/avx2.o:   KERNFLAGS := $(KERN_OPT) -mavx2 -mfma -mf16c
$(OBJ)/kern/x86/avx512.o: KERNFLAGS := $(KERN_OPT) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512
$(OBJ)/kern/x86/avx512bf16.o: KERNFLAGS := $(KERN_OPT) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma -mf16c -mprefer-vector-width=512
$(OBJ)/kern/x86/amx.o: KERNFLAGS := $(KERN_OPT) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mamx-tile -mamx-bf16 -mfma -mf16c -mprefer-vector-width=512
# without optimisation the tests that multiply would take hours
$(OBJ)/kern/%.o: KERNFLAGS := $(if $(filter cov,$(MODE)),-O2)
# gcc would load all of a tile's broadcasts first, and spill
$(OBJ)/kern/arm/%neon.o:   KERNFLAGS = $(KERN_OPT) $(if $(findstring clang,$(shell $(CC) --version)),,-fno-schedule-insns)

$(OBJ)/%.o: src/%.c | need
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) $(KERNFLAGS) $(DEFS) -c $< -o $@

# whatever EXT names, because builds of the core alone share this object
$(OBJ)/os/libcurl.o $(OBJ)/os/http_client.o: DEFS = $(shell $(call loaded,CURL=libcurl))
$(OBJ)/os/http_server.o: DEFS = $(shell $(call loaded,MICROHTTPD=libmicrohttpd))
$(OBJ)/base/version.o: DEFS = -DGRPO_VERSION='"$(VERSION)"' -DGRPO_COMMIT='"$(COMMIT)"'
# a file that changes when the commit does: runs write the commit down
$(OBJ)/base/version.o: $(OBJ)/commit
$(OBJ)/commit: need
	@mkdir -p $(@D)
	@tools/source-commit | cmp -s - $@ || tools/source-commit >$@

define layer_rule
$(BUILD)/lib$(1).a: $(call objs_of,$(1))
	@rm -f $$@
	$$(Q)$(AR) rcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call layer_rule,$(l))))

# What a shared object is linked from: every object is -fPIC with hidden names, so the program, libgrpo.so and grpo.so share them.
PIC_OBJS = $(foreach l,$(LAYERS),$(call objs_of,$(l))) $(BUILD)/obj/embedded.o $(EXT_OBJS)

# ---- Lua sources, embedded ----------------------------------------------------
LUA_FILES := $(shell find lua rewards $(foreach e,$(EXT),$(wildcard ext/$(e)/lua ext/$(e)/rewards)) -name '*.lua' 2>/dev/null | LC_ALL=C sort)
$(BUILD)/embed: tools/embed.c | need
	@mkdir -p $(@D)
	$(Q)$(HOSTCC) -std=c11 -O1 $(WARN) $< -o $@
# what grpo help finds in the pages
DOC_PAGES := README.md $(filter-out docs/options.md,$(sort $(wildcard docs/*.md))) $(patsubst %,ext/%/README.md,$(EXT))
DOC_INDEX := $(BUILD)/gen/docs.index
$(DOC_INDEX): tools/doc-index src/rl/metrics.def $(DOC_PAGES) $(BUILD)/extensions
	@mkdir -p $(@D)
	$(Q)tools/doc-index src/rl/metrics.def $(DOC_PAGES) > $@.tmp && mv $@.tmp $@
# ext/NAME/embedded: further files that the program has inside, such as pages
EMBEDDED := $(LUA_FILES) $(sort $(wildcard configs/*/*.json $(patsubst %,ext/%/configs/*/*,$(EXT)))) $(DOC_INDEX) \
  $(foreach e,$(EXT),$(if $(wildcard ext/$(e)/embedded),$(shell cat ext/$(e)/embedded)))
$(BUILD)/gen/embedded.c: $(BUILD)/embed $(EMBEDDED) $(BUILD)/extensions
	@mkdir -p $(@D)
	$(Q)$(BUILD)/embed $(EMBED_FLAGS) $(EMBEDDED) > $@.tmp && mv $@.tmp $@
$(BUILD)/obj/embedded.o: $(BUILD)/gen/embedded.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -c $< -o $@

$(OBJ)/main.o: src/main.c
$(OBJ)/power.o: src/power.c
MAIN_OBJS = $(OBJ)/main.o $(OBJ)/power.o
$(PROGRAM): $(MAIN_OBJS) $(BUILD)/obj/embedded.o $(EXT_OBJS) $(call libs_upto,script) $(BUILD)/extensions
	$(Q)$(LINK) -o $@ $(MAIN_OBJS) $(BUILD)/obj/embedded.o $(EXT_OBJS) \
	  -Wl,--start-group $(call libs_upto,script) -Wl,--end-group $(LIBS)

-include $(wildcard $(patsubst %,ext/%/rules.mk,$(EXT)))
.PHONY: ext-products
ext-products: $(EXT_PRODUCTS)

# ---- grpo.so: the engine inside a stock lua5.4
LUA_MODULE := $(BUILD)/lua/grpo.so
$(OBJ)/module.o: src/module.c
$(LUA_MODULE): $(OBJ)/module.o $(PIC_OBJS) src/module.map $(BUILD)/extensions
	@mkdir -p $(@D)
	$(Q)$(LINK) -shared -Wl,-Bsymbolic -Wl,--version-script=src/module.map -o $@ $(filter %.o,$^) $(MODULE_LIBS)
## make lua-module      grpo.so for a stock lua5.4, in build/release/lua: package.cpath = "build/release/lua/?.so"
.PHONY: lua-module
lua-module: $(LUA_MODULE)

# ---- libgrpo: include/grpo.h over all layers.  Its names begin with grpo_, in the archive too: the objects are one.
LIBGRPO_SO := $(BUILD)/libgrpo.so.1
LIBGRPO_A  := $(BUILD)/libgrpo.a
LIBGRPO_H  := include/grpo.h
API_OBJS    = $(call objs_of,api) $(OBJ)/module.o $(PIC_OBJS)
$(BUILD)/libgrpo.o: $(API_OBJS) src/api/libgrpo.map $(BUILD)/extensions
	$(Q)$(CC) -nostdlib -r -o $@ $(API_OBJS) && $(OBJCOPY) --localize-hidden $@
$(LIBGRPO_A): $(BUILD)/libgrpo.o
	@rm -f $@
	$(Q)$(AR) rcs $@ $^
$(LIBGRPO_SO): $(BUILD)/libgrpo.o src/api/libgrpo.map
	$(Q)$(LINK) -shared -Wl,-soname,libgrpo.so.1 -Wl,-Bsymbolic -Wl,--version-script=src/api/libgrpo.map -o $@ $< $(LIBS)
	@ln -sf libgrpo.so.1 $(BUILD)/libgrpo.so
# ---- grpo/ffi.lua: libgrpo for LuaJIT, with the declarations of grpo.h inside
LUAJIT_MODULE := $(BUILD)/luajit/grpo/ffi.lua
$(LUAJIT_MODULE): luajit/ffi.lua tools/abi $(LIBGRPO_H)
	@mkdir -p $(@D)
	$(Q)tools/abi --cdef | sed -e '/^@DECLARATIONS@$$/ { r /dev/stdin' -e 'd }' $< > $@.tmp && mv $@.tmp $@
## make lib             libgrpo.so and libgrpo.a in build/release, for programs that include grpo.h; luajit/grpo/ffi.lua for LuaJIT
.PHONY: lib
lib: $(LIBGRPO_SO) $(LIBGRPO_A) $(LUAJIT_MODULE)

## make wheel           a Python wheel with program and library in build/wheel (needs python3); CROSS=aarch64-linux-gnu- [SYSROOT=DIR] for that machine
.PHONY: wheel
wheel:
	@CROSS=$(CROSS) SYSROOT=$(SYSROOT) tools/build-wheel $(VERSION) $(if $(CROSS),,$(OBJ))
## make check-wheel     the wheel in an environment of its own: installed, trained, measured; with CROSS under qemu
.PHONY: check-wheel
check-wheel:
	@CROSS=$(CROSS) SYSROOT=$(SYSROOT) tools/check-wheel $(VERSION) $(if $(CROSS),,$(OBJ))

## make static          one file that needs no other, with musl: build/static/MACHINE/grpo; CROSS=aarch64-linux-gnu- for that machine
# The extensions in it load nothing when the program runs.
STATIC_EXT ?= $(filter-out mpi web,$(foreach e,$(EXT),$(if $(findstring =,$(shell cat ext/$(e)/libraries 2>/dev/null)),,$(e))))
.PHONY: static
static:
	@CROSS=$(CROSS) tools/build-static '$(STATIC_EXT)'

# Hosts see the public header and nothing else.
HOST_C   = $(CC) -std=c11 -Wall -Wextra -Wpedantic $(if $(CI),-Werror) $(OPT) -pthread -Iinclude $(CPPFLAGS) $(CFLAGS)
HOST_CXX = $(CXX) -std=c++17 -Wall -Wextra -Wpedantic $(if $(CI),-Werror) $(OPT) -pthread -Iinclude $(CPPFLAGS) $(CXXFLAGS)
HOST_LINK = -L$(BUILD) -lgrpo -Wl,-rpath,'$$ORIGIN/..' $(LDFLAGS)
HOSTS    = $(patsubst examples/embed/%.c,$(BUILD)/embed-hosts/%,$(wildcard examples/embed/*.c)) \
           $(patsubst examples/embed/%.cpp,$(BUILD)/embed-hosts/%,$(wildcard examples/embed/*.cpp))
$(BUILD)/embed-hosts/%: examples/embed/%.c $(LIBGRPO_SO) $(LIBGRPO_H)
	@mkdir -p $(@D)
	$(Q)$(HOST_C) -o $@ $< $(HOST_LINK) -lm
$(BUILD)/embed-hosts/%: examples/embed/%.cpp $(LIBGRPO_SO) $(LIBGRPO_H)
	@mkdir -p $(@D)
	$(Q)$(HOST_CXX) -o $@ $< $(HOST_LINK)
## make hosts           the programs of examples/embed
.PHONY: hosts
hosts: $(HOSTS)

# ---- the double-precision twin of base, os, kern (generic only) and grad, for gradient checks
DBL := $(BUILD)/double
dbl_src := $(wildcard src/base/*.c src/os/*.c) $(wildcard src/kern/*.c) $(wildcard src/grad/*.c)
dbl_obj := $(patsubst src/%.c,$(DBL)/%.o,$(dbl_src))
$(DBL)/%.o: src/%.c | need
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) -DGRPO_DOUBLE $(DEFS) -c $< -o $@
$(DBL)/base/version.o: DEFS = -DGRPO_VERSION='"$(VERSION)"' -DGRPO_COMMIT='"$(COMMIT)"'
$(DBL)/check: $(patsubst tests/%.c,$(DBL)/tests/%.o,$(wildcard tests/grad/check*.c)) $(DBL)/tests/testing.o $(dbl_obj)
	$(Q)$(LINK) -o $@ $^ $(LIBS)
$(DBL)/tests/%.o: tests/%.c | need
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -fno-sanitize=float-divide-by-zero $(PKG_CFLAGS) -Itests -DGRPO_DOUBLE -c $< -o $@

# ---- C tests: tests/LAYER/test_NAME.c is a program of its own ------------------
test_progs = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/$(1)/test_*.c))
$(BUILD)/tests/testing.o: tests/testing.c | need
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -Itests -c $< -o $@
define test_rule
$(BUILD)/tests/$(1)/%.o: tests/$(1)/%.c | need
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(BASE_CFLAGS) $$(PKG_CFLAGS) -Itests -c $$< -o $$@
$(BUILD)/tests/$(1)/%: $(BUILD)/tests/$(1)/%.o $(BUILD)/tests/testing.o $(call libs_upto,$(1))
	$$(Q)$$(LINK) -o $$@ $$< $(BUILD)/tests/testing.o -Wl,--start-group $(call libs_upto,$(1)) -Wl,--end-group $$(LIBS)
endef
$(foreach l,$(LAYERS),$(eval $(call test_rule,$(l))))
C_TESTS := $(foreach l,$(LAYERS),$(call test_progs,$(l)))

# Tests of an extension in C link all layers and it alone.
define ext_test_rule
$(BUILD)/tests/ext/$(1)/%.o: ext/$(1)/tests/%.c | need
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(HAVE) $$(BASE_CFLAGS) -Iext $$(PKG_CFLAGS) -Itests -c $$< -o $$@
$(BUILD)/tests/ext/$(1)/%: $(BUILD)/tests/ext/$(1)/%.o $(BUILD)/tests/testing.o $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard ext/$(1)/*.c)) $(call libs_upto,script)
	$$(Q)$$(LINK) -o $$@ $$(filter %.o,$$^) -Wl,--start-group $(call libs_upto,script) -Wl,--end-group $$(LIBS)
EXT_TESTS += $(patsubst ext/$(1)/tests/%.c,$(BUILD)/tests/ext/$(1)/%,$(wildcard ext/$(1)/tests/test_*.c))
endef
EXT_TESTS :=
$(foreach e,$(EXT),$(eval $(call ext_test_rule,$(e))))

# Parts of the engine for Lua tests: a module with its own copy, whose Lua is that of whoever loads it.
LUA_PARTS := $(BUILD)/tests/lua/engine_parts.so
$(BUILD)/tests/lua/%.o: tests/lua/%.c | need
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) -c $< -o $@
$(LUA_PARTS): $(BUILD)/tests/lua/engine_parts.o $(call libs_upto,rl)
	$(Q)$(LINK) -shared -Wl,-Bsymbolic -o $@ $< -Wl,--start-group $(call libs_upto,rl) -Wl,--end-group $(MODULE_LIBS)

# A server for tests: it speaks the protocol of the Hub (ext/hub), and judges texts (tests/cli/how_to.sh).
HUB_SERVER := $(BUILD)/tests/hub_server
$(HUB_SERVER): tests/hub_server.c $(call libs_upto,formats)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) -o $@ $< -Wl,--start-group $(call libs_upto,formats) -Wl,--end-group $(LIBS)

# tests/api, and tests/api of an extension, see what a host sees: the header and the shared library.
API_TESTS := $(call test_progs,api)
API_TEST_NEEDS := $(BUILD)/tests/testing.o $(LIBGRPO_SO) $(LIBGRPO_H) $(wildcard tests/api/*.h)
API_TEST = $(HOST_C) -D_GNU_SOURCE -Itests -Itests/api $(PKG_CFLAGS) -o $@ $< $(BUILD)/tests/testing.o -L$(BUILD) -lgrpo \
  -Wl,-rpath,'$$ORIGIN/../..' -Wl,--as-needed $(LDFLAGS) $(filter -llua%,$(PKG_LIBS)) -lm
$(BUILD)/tests/api/%: tests/api/%.c $(API_TEST_NEEDS)
	@mkdir -p $(@D)
	$(Q)$(API_TEST)
define ext_api_rule
API_TESTS += $(patsubst ext/$(1)/tests/api/%.c,$(BUILD)/tests/api/$(1)-%,$(wildcard ext/$(1)/tests/api/test_*.c))
$(BUILD)/tests/api/$(1)-%: ext/$(1)/tests/api/%.c $(API_TEST_NEEDS)
	@mkdir -p $$(@D)
	$$(Q)$$(API_TEST)
endef
$(foreach e,$(EXT),$(eval $(call ext_api_rule,$(e))))
.PHONY: test-api
test-api: $(API_TESTS)
	@tools/run-tests "$(BUILD)" --c-only $(API_TESTS)
.SECONDARY:

# Oracles: data that other implementations computed; a user's clone has none.
ifneq ($(wildcard ../shared/oracles/README.md),)
SHARED ?= ../shared
endif
export RUN
export GRPO_SHARED := $(abspath $(SHARED))
ifeq ($(SHARED),)
export GRPO_SHARED :=
endif

## make test            build and run all tests (SHARED=DIR: with the oracles in DIR; default ../shared when there)
.PHONY: test
test: grpo $(HUB_SERVER) $(LUA_MODULE) $(LUAJIT_MODULE) $(LIBGRPO_SO) $(LIBGRPO_A) $(HOSTS) $(LUA_PARTS) $(C_TESTS) $(EXT_TESTS) $(API_TESTS) $(DBL)/check $(BENCH_PROGRAM) $(BUILD)/bench/grpo-profile $(BUILD)/bench/kernels $(BUILD)/bench/step
	@EXTENSIONS="$(EXT)" tools/run-tests "$(BUILD)" $(C_TESTS) $(EXT_TESTS) $(API_TESTS) $(DBL)/check

## make test-alone      with EXT= and a BUILD of its own: of the core's tests, those that a program without extensions could fail
.PHONY: test-alone
ALONE := tests/lua rewards $(patsubst %,tests/cli/%.sh,commands completions docs errors help how_to install layers man mistakes settings)
test-alone: grpo $(HUB_SERVER) $(LUA_PARTS) $(BENCH_PROGRAM)
	@tools/run-tests "$(BUILD)" --only "$(ALONE)"

## make test-LAYER      only the C tests of base, os, formats, kern, grad, text, model, checkpoint, rl, script or api
define layer_test
.PHONY: test-$(1)
test-$(1): $(call test_progs,$(1)) $(if $(filter grad,$(1)),$(DBL)/check)
	@tools/run-tests "$(BUILD)" --c-only $(call test_progs,$(1)) $(if $(filter grad,$(1)),$(DBL)/check)
endef
$(foreach l,$(LAYERS),$(eval $(call layer_test,$(l))))

## make check           the long checks: sanitizers, analysers, kills, disk faults, allocations that fail, planted bugs, fuzzing, llama.cpp, aarch64
.PHONY: check
check:
	$(MAKE) test
	$(MAKE) MODE=asan test
	STRIDE=23 KILLS=30 tools/check-crash
	STRIDE=60 tools/check-damage
	POINTS=400 tools/check-memory
	tools/check-long
	RANKS=3 THREADS=1 tools/check-ranks grpo ppo_separate lua_loss tools nf4
	KILLS=14 tools/check-ranks-kill
	tools/check-hosts
	GRPO_POINTS=2000 $(BUILD)/tests/api/test_memory
	tools/check-analysers
	tools/check-sanitizers
	tools/check-planted
	tools/check-embed
	tools/check-llama-cpp
	tools/check-tensorboard
	tools/check-neon
	tools/check-static
	tools/check-portable
	tools/check-web
	tools/check-page
	$(MAKE) check-wheel
	tools/check-fuzz

## make check-portable  four runs whose sums are in the repository, by other kernels, compilers, libraries and machines
.PHONY: check-portable
check-portable:
	tools/check-portable

## make torture         hours: a kill and every fault at every system call that changes a file, KILLS=2000 random kills,
##                      a failure of every allocation, every byte of a run damaged, a million steps
KILLS ?= 2000
.PHONY: torture
torture: grpo $(BUILD)/tests/api/test_memory
	KILLS=$(KILLS) tools/check-crash
	tools/check-memory
	GRPO_POINTS=0 $(BUILD)/tests/api/test_memory
	tools/check-damage
	STEPS=1000000 tools/check-long

## make CROSS=aarch64-linux-gnu- SYSROOT=DIR RUN=qemu-aarch64 ...   the same for another machine; tools/check-neon

## make fuzz            TIME=1800 seconds over all fuzz targets together; FUZZ="config template" for some of them
TIME ?= 1800
.PHONY: fuzz
fuzz:
	tools/check-fuzz -T $(TIME) $(FUZZ)

## make demo            run experiments/gsm8k.lua with nothing downloaded
.PHONY: demo
demo: grpo
	@echo "the demonstration of the README: three to four minutes on two cores; ./grpo run experiments/recipes/demo.lua takes seconds"
	./grpo run experiments/gsm8k.lua

## make check-demo      the demo with seeds 0, 1, 2 against what the README promises
.PHONY: check-demo
check-demo: grpo
	tools/check-demo

## make deps            install what the build needs (apt-get); elsewhere say what to install
.PHONY: deps
deps:
	@tools/deps $(DEBIAN) -- libopenblas-dev scdoc libopenmpi-dev openmpi-bin libmpich-dev mpich lua5.4 luajit \
	  $(foreach w,$(EXT_LIBRARIES),$(if $(findstring =,$(w)),,$(w)))

## make bench-kernels   this machine's speed in products, attention and rows against OpenBLAS
.PHONY: bench-kernels
bench-kernels: $(BUILD)/bench/kernels
	@env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $<

## make bench-step      packed, prompt-sharing training against a prompt for each completion; time of a step
.PHONY: bench-step
bench-step: $(BUILD)/bench/step
	@env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $<

## make bench-scaling   how time grows with rows, context, vocabulary, group, threads; fails where it outgrows the arithmetic
.PHONY: bench-scaling
bench-scaling: bench
	@bench/scaling

## make bench-profile   where the time of W1 to W4 goes
.PHONY: bench-profile
bench-profile: grpo $(BUILD)/bench/grpo-profile
	@bench/profile

## make bench-check     W1 to W4 against the ratios to the floor in bench/expected.json; fails where one is worse
## make bench-expected  writes those ratios; on a quiet machine
BENCH_CHECK = env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE ./grpo bench --workload W1,W2,W3,W4 --runs 3 --sharing on --reuse off
.PHONY: bench-check bench-expected
bench-check: bench
	@$(BENCH_CHECK) --check bench/expected.json
bench-expected: bench
	@$(BENCH_CHECK) --write-expected bench/expected.json

# ---- grpo-bench: the program with what measures, which is in bench/; and the same with a profiler inside
BENCH_LUA     := $(sort $(wildcard bench/lua/grpo/bench/*.lua))
BENCH_OBJS     = $(MAIN_OBJS) $(patsubst %,$(BUILD)/bench/obj/%.o,rates lua_rates embedded)
BENCH_LINK     = $(Q)$(LINK) -o $@ $(filter %.o,$^) -Wl,--start-group $(call libs_upto,script) -Wl,--end-group $(LIBS)
$(BUILD)/gen/bench_embedded.c: $(BUILD)/embed $(EMBEDDED) $(BENCH_LUA) $(BUILD)/extensions
	@mkdir -p $(@D)
	$(Q)$(BUILD)/embed $(EMBEDDED) $(BENCH_LUA) > $@.tmp && mv $@.tmp $@
$(BUILD)/bench/obj/embedded.o: $(BUILD)/gen/bench_embedded.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -c $< -o $@
$(BUILD)/bench/obj/%.o: bench/%.c | need
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) -c $< -o $@
$(BENCH_PROGRAM): $(BENCH_OBJS) $(EXT_OBJS) $(call libs_upto,script)
	$(BENCH_LINK)
$(BUILD)/bench/grpo-profile: $(BUILD)/bench/obj/profile.o $(BENCH_OBJS) $(EXT_OBJS) $(call libs_upto,script)
	$(BENCH_LINK)
## make bench           what `grpo bench` hands over to: build/release/bench/grpo-bench
.PHONY: bench
bench: grpo $(BENCH_PROGRAM)

$(BUILD)/bench/context: bench/context.c $(BUILD)/bench/obj/rates.o $(call libs_upto,rl)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) -Ibench -o $@ $(filter %.c %.o,$^) -Wl,--start-group $(call libs_upto,rl) -Wl,--end-group $(LIBS)
$(BUILD)/bench/%: bench/%.c $(call libs_upto,rl)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS) -o $@ $< -Wl,--start-group $(call libs_upto,rl) -Wl,--end-group $(LIBS)

# ---- install: below $(DESTDIR)$(PREFIX); what was put there is listed in share/grpo/installed
# Programs and libraries are installed without debug information; STRIP= leaves it in.
# Told to the scripts by name, not exported: a make within a test must not find these in its environment.
BINDIR       ?= $(PREFIX)/bin
LIBDIR       ?= $(PREFIX)/lib
INCLUDEDIR   ?= $(PREFIX)/include
DATADIR      ?= $(PREFIX)/share
MANDIR       ?= $(DATADIR)/man
SHAREDIR     := $(DATADIR)/grpo
DOCDIR       ?= $(DATADIR)/doc/grpo
PKGCONFIGDIR ?= $(LIBDIR)/pkgconfig
LUA_CMOD     ?= $(LIBDIR)/lua/5.4
LUAJIT_LMOD  ?= $(DATADIR)/lua/5.1
PLACES = $(foreach v,BUILD STRIP DESTDIR PREFIX VERSION EXT BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR SHAREDIR DOCDIR PKGCONFIGDIR LUA_CMOD LUAJIT_LMOD,$(v)='$($(v))')
MANIFEST := $(SHAREDIR)/installed
PCFILE   := $(BUILD)/grpo.pc
INSTALLED_LIBRARY = LUAJIT_MODULE=$(LUAJIT_MODULE) LIBGRPO_SO=$(LIBGRPO_SO) LIBGRPO_A=$(LIBGRPO_A) PCFILE=$(PCFILE)
## make install         program, library, Lua module, pages, completions, examples below PREFIX=/usr/local (and DESTDIR);
##                      without debug information, unless STRIP= is given; install-strip is the same
## make uninstall       takes them away again
.PHONY: install install-strip uninstall install-lua
install-strip: install
install: $(PROGRAM) $(EXT_PRODUCTS) $(LUA_MODULE) $(LUAJIT_MODULE) $(LIBGRPO_SO) $(LIBGRPO_A) man completions
	@sed -e 's|@PREFIX@|$(PREFIX)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' \
	  tools/grpo.pc.in > $(PCFILE)
	@env $(PLACES) $(INSTALLED_LIBRARY) tools/install-list $(PROGRAM) $(LUA_MODULE) | env $(PLACES) tools/install $(MANIFEST)
uninstall:
	@env $(PLACES) tools/install --remove $(MANIFEST)
# what luarocks calls: the module alone
install-lua: $(LUA_MODULE)
	@mkdir -p $(DESTDIR)$(LUA_CMOD) && install -m 644 $(LUA_MODULE) $(DESTDIR)$(LUA_CMOD)/grpo.so
	@$(if $(STRIP),$(STRIP) --strip-unneeded $(DESTDIR)$(LUA_CMOD)/grpo.so)

## make dist            grpo-VERSION.tar.gz in build: what is committed, the same bytes on every machine
.PHONY: dist
dist:
	@mkdir -p build
	@git -c tar.umask=0022 -c core.autocrlf=false archive --format=tar --prefix=grpo-$(VERSION)/ HEAD | gzip -9n >build/grpo-$(VERSION).tar.gz
	@echo build/grpo-$(VERSION).tar.gz

## make options         rewrite what is written from tables: docs/options.md, annotations of options
.PHONY: options
options: grpo
	./grpo repl < tools/gen-options.lua

## make man             manual pages in build/release/man, from docs/man/*.scd and the commands' tables (needs scdoc)
## make completions     completions for bash, zsh and fish in build/release/completions, from the commands' tables
.PHONY: man completions
man completions: %: $(BUILD)/%/made
$(BUILD)/man/made: $(PROGRAM) tools/gen-man.lua $(wildcard docs/man/*.scd)
	@mkdir -p $(@D)
	@OUT=$(@D) $(PROGRAM) repl < tools/gen-man.lua
	@if command -v scdoc > /dev/null; then \
	  for page in $(@D)/*.scd; do SOURCE_DATE_EPOCH=0 scdoc < $$page > $${page%.scd} || exit 1; done; \
	else echo "grpo: the manual pages were not made, because scdoc is not installed; 'make deps' installs it"; fi
	@touch $@
$(BUILD)/completions/made: $(PROGRAM) tools/gen-completions.lua
	@mkdir -p $(@D)
	@OUT=$(@D) $(PROGRAM) repl < tools/gen-completions.lua
	@touch $@

## make lint            clang-format and luacheck, nothing rewritten
.PHONY: lint
lint:
	@tools/lint
## make format          rewrite the C sources with clang-format
.PHONY: format
format:
	clang-format -i $$(git ls-files 'src/*.c' 'src/*.h' 'tests/*.c' 'tests/*.h' 'tools/*.c' ':!*.inc.c')

## make clean           remove build/
.PHONY: clean
clean:
	rm -rf build grpo

## make help            this list; MODE=debug|asan|tsan|cov selects another build tree
.PHONY: help
help:
	@sed -n 's/^## //p' Makefile $(wildcard $(EXT:%=ext/%/rules.mk))

ifeq ($(V),1)
Q :=
else
Q = @echo "  $(if $(filter %.o,$@),CC  ,LINK) $(patsubst $(BUILD)/%,%,$@)";
endif

-include $(sort $(shell find $(BUILD) $(OBJ) -mindepth 1 -name '*.d' 2>/dev/null))
