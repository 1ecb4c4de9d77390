/* parts.h - the parts of grpo.core that extensions add.
 *
 * An extension writes EXTENSION_PART(NAME) where a file of src/script has CORE_PART(NAME); core.c
 * opens these parts behind its own.
 */
#ifndef GRPO_SCRIPT_PARTS_H
#define GRPO_SCRIPT_PARTS_H

#include <lua.h>

#include "base/extension.h"

typedef void CorePart(lua_State *L);

typedef struct ExtensionPart {
  CorePart *open; /* called once per Lua state with the table `grpo.core` on top */
  struct ExtensionPart *next;
} ExtensionPart;

void part_add(ExtensionPart *part);
const ExtensionPart *part_first(void);

#define EXTENSION_PART(name)                                                                       \
  static CorePart name##_open;                                                                     \
  EXTENSION(name##_part) {                                                                         \
    static ExtensionPart part = {.open = name##_open};                                             \
    part_add(&part);                                                                               \
  }                                                                                                \
  static void name##_open(lua_State *L)

#endif
