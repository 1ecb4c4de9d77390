/* config_keys.h - keys of a config.json that its family has no use for. */
#ifndef GRPO_MODEL_CONFIG_KEYS_H
#define GRPO_MODEL_CONFIG_KEYS_H

#include "formats/json.h"
#include "model/config.h"

/* Refuses a key that changes the result and is not computed for the family (EFORMAT), and notes
 * other keys that nobody here knows.  Values that stand for "not used" are fine. */
Status config_check_keys(const Config *c, const Json *j, const char *what);

#endif
