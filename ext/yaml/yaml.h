/* yaml.h - reads YAML: one document, as the JSON text that means the same.
 *
 * libyaml does the syntax.  It is loaded when a text is first read, and its header must be there
 * when grpo is built.  The values are those of YAML 1.2 (core schema): yes, no, on and off are
 * texts, 1e-4 is a number.  Refused are anchors, aliases and merge keys, tags, keys that are not
 * texts or stand twice in a mapping, .inf and .nan, a second document, more than YAML_MAX_BYTES
 * bytes and more than YAML_MAX_DEPTH levels.
 */
#ifndef GRPO_YAML_YAML_H
#define GRPO_YAML_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { YAML_MAX_BYTES = 1 << 20, YAML_MAX_DEPTH = 64 };

bool yaml_available(void);

/* Appends JSON text.  EFORMAT: the message begins with "WHAT:LINE:COLUMN: ".  EARG: there is no
 * libyaml. */
Status yaml_to_json(const char *text, size_t len, const char *what, Buf *json);

#endif
