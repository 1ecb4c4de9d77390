/* config_value.h - single values of a config.json: read within a range, and written.
 *
 * `what` names the file in messages.  An error is GRPO_EFORMAT.
 */
#ifndef GRPO_MODEL_CONFIG_VALUE_H
#define GRPO_MODEL_CONFIG_VALUE_H

#include "base/buf.h"
#include "base/err.h"
#include "formats/json.h"

bool config_absent(const Json *v); /* is it missing or null? */
Status config_read_int(const Json *v, const char *key, int64_t lo, int64_t hi, const char *what,
                       int *out);
Status config_read_num(const Json *v, const char *key, double lo, double hi, const char *what,
                       double *out);
Status config_read_bool(const Json *v, const char *key, const char *what, bool *out);
void config_put_key(Buf *b, const char *key); /* ",\n  \"key\": " */

#endif
