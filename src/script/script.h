/* script.h - what the files of src/script share.
 *
 * A Script is one Lua state with what the engine lends it: the thread pool,
 * scratch memory, budgets for script code.  Rules for every C function that
 * Lua can call:
 *
 *   - Failures leave through raise_status() and its relatives: an error object
 *     {code=, message=, where=} whose text is "script.lua:14: message".  The
 *     line is that of the first Lua function on the stack that is not part of
 *     the Lua half (lua/grpo, the embedded rewards).
 *   - A C frame owns no heap memory while Lua may throw: memory comes from
 *     push_scratch(), push_buf(), push_ints(), or belongs to a userdata.
 *   - Lua code is called through call_protected() or call_limited() only,
 *     except where an error is meant to pass straight on to our own caller
 *     (lua_call from a function that itself was called by Lua).
 */
#ifndef GRPO_SCRIPT_SCRIPT_H
#define GRPO_SCRIPT_SCRIPT_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/pool.h"
#include "formats/json.h"
#include "grad/value.h"
#include "model/model.h"
#include "model/sampler.h"
#include "script/embedded.h"
#include "text/tokenizer.h"

typedef struct Script Script;

/* ---- lua_vm.c: the state -------------------------------------------------------------- */
/* files: the table of embedded files (ends with a NULL name).  Standard libraries are open,
 * package.preload["grpo.core"] is set, embedded modules are found after files on package.path. */
Status script_open(Script **out, const EmbeddedFile *files);
void script_close(Script *s);        /* NULL is fine */
void check_not_closed(lua_State *L); /* raises: what finalizers of scripts may do while it closes */
lua_State *script_state(Script *s);
/* foreign_vm.c: gives the Lua state of a host what script_open gives our own, but leaves its globals,
 * allocator and hooks alone; the state owns the Script.  Once for a state; later calls do nothing.
 * Raises a string. */
void script_attach(lua_State *L, const EmbeddedFile *files);
Script *script_of(lua_State *L);
/* The engine's pool; made at the first call with the number of core.set_threads. Raises. */
Pool *script_pool(lua_State *L);
/* The pool and a scratch arena for value_apply and kernels. */
const Ctx *script_ctx(lua_State *L);
/* Pushes an embedded module's loader and its path; false: there is none of that name. */
bool script_push_module(lua_State *L, const char *name);
const EmbeddedFile *script_embedded(lua_State *L, const char *name, size_t len); /* NULL: none */

/* ---- search.c: modules that are files ------------------------------------------------ */
void search_open(
    lua_State *L); /* package.searchpath and the search open nothing but regular files */

/* ---- errors.c: failures -> Lua errors ----------------------------------------------- */
int raise_status(lua_State *L, Status s); /* the recorded failure (err_message); never returns */
int raise_new(lua_State *L, Status s, const char *fmt,
              ...) /* fail() and raise_status() in one; never returns */
    __attribute__((format(printf, 3, 4)));
int arg_error(lua_State *L, int arg, const char *fmt,
              ...) /* "bad argument #1 to 'match' (...)"; EARG */
    __attribute__((format(printf, 3, 4)));
int type_error(lua_State *L, int arg, const char *wanted);    /* "... (string expected, got nil)" */
void push_error(lua_State *L, Status s, const char *message); /* pushes the object, with position */
int push_failure(lua_State *L, Status s); /* for I/O: pushes nil, message, code; returns 3 */
void push_where(lua_State *L, int level); /* pushes "script.lua:14" or "?" (user's line) */
bool is_library_source(lua_State *L, const char *source); /* part of the Lua half? */
/* Turns the value on top into an error object (unless it is one); adds a traceback when asked. */
void complete_error(lua_State *L, bool traceback);
/* The text of a string or an error object, with no metamethod called; the value must stay. */
const char *raw_message(lua_State *L, int index);
/* Closest name out of n, or NULL when none is near. */
const char *nearest_name(const char *name, const char *const *names, size_t n);

/* ---- args.c: arguments.  Like luaL_check..., but the error is at the user's line ---- */
const char *check_string(lua_State *L, int arg, size_t *len); /* strings only; len may be NULL */
lua_Integer check_integer(lua_State *L, int arg, lua_Integer min, lua_Integer max);
double check_number(lua_State *L, int arg);
void check_table(lua_State *L, int arg);
void check_function(lua_State *L, int arg);
void *check_object(lua_State *L, int arg, const char *type); /* userdata of that metatable */

/* Option tables.  `where` starts the messages: "sampling.temprature: unknown option, did you mean
 * 'temperature'?".  index may hold nil or nothing: then no option is set. */
void check_fields(lua_State *L, int index, const char *where,
                  const char *const *known /* NULL-ended */);
/* Each leaves *v alone and returns false when the field is nil; raises on a wrong type or range. */
bool field_number(lua_State *L, int index, const char *where, const char *name, double min,
                  double max, double *v);
bool field_int(lua_State *L, int index, const char *where, const char *name, lua_Integer min,
               lua_Integer max, int *v);
bool field_seed(lua_State *L, int index, const char *where, const char *name, uint64_t *v);
bool field_bool(lua_State *L, int index, const char *where, const char *name, bool *v);
/* Pushes the string when it is there (keep it on the stack while *v is used). */
bool field_string(lua_State *L, int index, const char *where, const char *name, const char **v);
/* Position in the NULL-ended list of choices. */
bool field_choice(lua_State *L, int index, const char *where, const char *name,
                  const char *const *choices, int *v);

/* optimizer.no_decay = { "bias", "norm" }: the kinds of parameters without weight decay. */
void field_no_decay(lua_State *L, int index, const char *where, bool *bias, bool *norm);

/* ---- args.c: fields of the table on top --------------------------------------------- */
void set_string(lua_State *L, const char *key, const char *value); /* NULL: nil */
void set_number(lua_State *L, const char *key, double value);

/* ---- args.c: memory that Lua owns, types of objects --------------------------------- */
void *push_scratch(lua_State *L, size_t count,
                   size_t size); /* pushes a userdata; cleared; raises */
/* lua_newuserdatauv for what has a finalizer: raises while the state is being closed, when Lua runs
 * no new finalizers. */
void *new_object(lua_State *L, size_t size, int values);
/* A type of objects: its metatable, with the methods as __index; both lists end with {NULL, NULL}. */
void make_type(lua_State *L, const char *type, const luaL_Reg *meta, const luaL_Reg *methods);
/* The last thing done to the metatable of a type, on top: scripts see a copy without its finalizer,
 * which is the collector's alone to call. */
void seal_type(lua_State *L);
/* In a close of the object at index 1: does a C function that has called us, through a callback or a
 * metamethod, have it on its stack, and so perhaps what it holds in its hands?  It is then left to
 * the collector.  True in a coroutine, where nobody can tell. */
bool in_use(lua_State *L);
/* The userdata on top, of a type without methods, is freed by gc. */
void set_gc(lua_State *L, const char *type, lua_CFunction gc);
Buf *push_buf(lua_State *L);     /* pushes a userdata that frees the buffer when collected */
IntBuf *push_ints(lua_State *L); /* the same for ids */
/* Done with it: its memory serves the next push_buf or push_ints, so that a steady step takes none. */
void keep_buf(lua_State *L, Buf *b);
void keep_ints(lua_State *L, IntBuf *b);
/* What the next push_buf and push_ints will hold without taking memory. */
void reserve_bufs(lua_State *L, size_t bytes, size_t ints);
/* Appends the 0-based ids of the list at index; `what` names it in errors ("prompt"). */
void check_ids(lua_State *L, int index, const char *what, IntBuf *out);
void push_ids(lua_State *L, const int32_t *ids, size_t n); /* pushes a list */
void push_doubles(lua_State *L, const double *v, int n);
void push_floats(lua_State *L, const float *v, int n);
void push_json(lua_State *L, const Json *j); /* lua_json.c: pushes the value */
/* lua_json.c: pushes the value of a JSON text; `what` names it in errors. */
void push_json_text(lua_State *L, const char *text, size_t len, const char *what);
void put_json(lua_State *L, int index, Buf *b, int indent); /* lua_json.c: appends; 0: one line */

/* ---- limits.c: the calls into Lua --------------------------------------------------- */
typedef struct Limits {
  uint64_t instructions; /* VM instructions; 0: unlimited */
  size_t memory;         /* bytes the call may hold at once; 0: unlimited */
  double seconds;        /* wall-clock backstop; 0: none */
} Limits;

/* As lua_pcall with the function and nargs arguments on top.  True: the results are there.
 * False: one error object, with traceback, in their place. */
bool call_protected(lua_State *L, int nargs, int nresults);
/* The same under budgets.  The error has code "ELIMIT" when a budget ran out and fatal = true when
 * that was the wall clock.  `name` names the code in messages: "reward 'correct'". */
bool call_limited(lua_State *L, const Limits *limits, const char *name, int nargs, int nresults);
/* Limits out of a table {instructions=, memory=, seconds=} at index (nil: none). */
void check_limits(lua_State *L, int index, Limits *out);
/* Inside C functions that scripts call: work that the instruction hook cannot see.  Cheap. */
void charge_work(lua_State *L, uint64_t instructions);
bool is_limited(lua_State *L);     /* is limited code running? */
extern volatile int script_cancel; /* lua_system.c: set by SIGINT and SIGTERM, for decoder_run */
/* lua_edit.c: Ctrl-C has come while a line of a prompt runs, and the line has not ended yet. */
extern volatile int script_interrupted;
/* Ctrl-C now stops the code of this thread; returns whose it stopped before, NULL: nobody's. */
lua_State *interrupt_target(lua_State *L);

/* ---- lua_tensor.c ------------------------------------------------------------------- */
#define TENSOR_TYPE "grpo.Tensor"
/* Pushes a tensor.  Takes over the caller's reference, also when it raises. */
void push_value(lua_State *L, Value *v);
/* The same for a tensor that belongs to the step (train.loss, tr.batch): stale, with an error that
 * advises :totable() or :detach(), as soon as end_step_values() was called. */
void push_step_value(lua_State *L, Value *v);
void end_step_values(lua_State *L);         /* also drops the values' references */
Value *check_value(lua_State *L, int arg);  /* borrowed: valid while the stack slot is */
Value *test_value(lua_State *L, int index); /* NULL: no tensor */
bool recording(lua_State *L);               /* false inside grpo.no_grad */

/* ---- lua_text.c, lua_model.c -------------------------------------------------------- */
#define TOKENIZER_TYPE "grpo.Tokenizer"
#define MODEL_TYPE     "grpo.Model"
const Tokenizer *check_tokenizer(lua_State *L, int arg);  /* borrowed */
const Tokenizer *test_tokenizer(lua_State *L, int index); /* NULL: no tokenizer */
void push_tokenizer(lua_State *L, const Tokenizer *t);    /* takes over one reference */
Model *check_model(lua_State *L, int arg);                /* borrowed */
Model *test_model(lua_State *L, int index);               /* NULL: no model */
/* The `sampling` table: every option of that section; group_size is ignored.  Pushes two values, what
 * its strings belong to and its regex: keep them on the stack while they are used. */
void check_sampling(lua_State *L, int index, const char *where, Sampling *out);

/* lua_regex.c: the regex of the value on top, a grpo.regex or a pattern, which becomes one. */
Regex *to_regex(lua_State *L, const char *where);

/* ---- what each file puts into core, and its metatables ------------------------------ */
extern const luaL_Reg base_functions[], json_functions[], state_functions[], tensor_functions[],
    autograd_functions[], loss_functions[], text_functions[], model_functions[], limits_functions[],
    errors_functions[], host_functions[], engine_functions[], bench_functions[], guest_functions[],
    sandbox_functions[];
/* Called once per state, the core table on top. */
void errors_open(lua_State *L);
void json_open(lua_State *L);
void regex_open(lua_State *L);
void state_open(lua_State *L);
void fs_open(lua_State *L);
void base_open(lua_State *L);
void tensor_open(lua_State *L);
void autograd_open(lua_State *L);
void text_open(lua_State *L);
void model_open(lua_State *L);
void engine_open(lua_State *L);  /* lua_engine.c */
void edit_open(lua_State *L);    /* lua_edit.c: core.edit */
void channel_open(lua_State *L); /* lua_channel.c: core.channel */
void process_open(lua_State *L); /* lua_process.c: core.process */
int open_core(lua_State *L);     /* open.c: the lua_CFunction of package.preload["grpo.core"] */

#endif
