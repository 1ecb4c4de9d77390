/* extension.h - how the C of an extension (ext/NAME) reaches the core.
 *
 * A layer that can be extended has a list of rows and a function that links a static row into it,
 * such as part_add() of script/parts.h.  An extension calls it before main:
 *
 *   EXTENSION(name) { part_add(&row); }
 *
 * Such a function only links rows: it allocates nothing and cannot fail.
 */
#ifndef GRPO_BASE_EXTENSION_H
#define GRPO_BASE_EXTENSION_H

#define EXTENSION(name) __attribute__((constructor)) static void extension_##name(void)

#endif
