/* core.c - the parts of grpo.core. */
#include "script/core.h"


#include "script/binding.h"

/* A file that adds methods to a type comes after the file that makes the type. */
#define PARTS(X)                                                                                   \
  X(errors)                                                                                        \
  X(limits)                                                                                        \
  X(modules) X(system) X(random) X(json) X(serialize) X(regex) X(fs) X(tensor) X(tensor_new)       \
      X(autograd) X(loss) X(text) X(model) X(adapter) X(generate) X(score) X(unmask) X(edit)       \
          X(advantages) X(options) X(checkpoint) X(bigram) X(engine) X(batch) X(rollout) X(update) \
              X(ppo) X(sft) X(denoise) X(channel) X(process) X(foreign) X(sandbox)

#define DECLARE(name) CorePart name##_open;
PARTS(DECLARE)

int open_core(lua_State *L) {
#define ADDRESS(name) name##_open,
  static CorePart *const open[] = {PARTS(ADDRESS)};
  lua_createtable(L, 0, 128);
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) open[i](L);
  return 1;
}
