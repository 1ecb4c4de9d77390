/* lua_edit.h - how an extension edits the lines of a prompt; without one they are read as they are.
 */
#ifndef GRPO_SCRIPT_LUA_EDIT_H
#define GRPO_SCRIPT_LUA_EDIT_H

#include <lua.h>
#include <stdbool.h>

typedef struct LineEditor {
  /* The value at index 1 is nil or the function that completes, as core.edit.open has it; file: the
   * name of the history in $HOME.  False if a library is missing: lines are then read plainly. */
  bool (*open)(lua_State *L, const char *file);
  /* Returns a line without its end, which the caller frees, or NULL at the end of input. */
  char *(*line)(const char *prompt);
  void (*remember)(const char *line);
} LineEditor;

void edit_use(const LineEditor *editor); /* before main (base/extension.h) */
/* While an editor calls Lua within `line`, Ctrl-C must not jump out of it. */
void edit_pause(bool paused);

#endif
