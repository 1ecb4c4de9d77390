/* config_read.h - a Config from the JSON of Hugging Face's config.json.
 *
 * An unknown model_type is refused by name, and so is an option that would change the result and is
 * not supported (GRPO_EFORMAT).  `what` names the source in messages.
 */
#ifndef GRPO_MODEL_CONFIG_READ_H
#define GRPO_MODEL_CONFIG_READ_H

#include "formats/json.h"
#include "model/config.h"

Status config_read(Config *out, const Json *j, const char *what);
/* Adds the special tokens of generation_config.json to those of config.json. */
Status config_read_generation(Config *c, const Json *j, const char *what);

#endif
