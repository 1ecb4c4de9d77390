/* key_order.h - the order in which a file named the keys of an object.
 *
 * A Lua table has no order, but a template prints the keys of an object as the file had them
 * (lua/grpo/jinja).  So whoever makes a table of an object notes the order, beside the table.
 */
#ifndef GRPO_SCRIPT_KEY_ORDER_H
#define GRPO_SCRIPT_KEY_ORDER_H

#include <lua.h>
#include <stdbool.h>

typedef struct KeyOrder {
  int at, count; /* where it is on the stack; how many keys it has */
  bool own;      /* see key_order.c */
} KeyOrder;

/* Pushes the order of an object that has no keys yet; whoever pushed it also pops it. */
KeyOrder key_order_begin(lua_State *L);
/* The key on top, which stays, is the next one. */
void key_order_add(lua_State *L, KeyOrder *o);
/* The table at index `object` has had all its keys. */
void key_order_end(lua_State *L, const KeyOrder *o, int object);
/* Pushes the list of the keys that a file gave the table at index, and returns true; false, and
 * nothing is pushed, if it came from no file or has fewer than two. */
bool key_order_push(lua_State *L, int index);

#endif
