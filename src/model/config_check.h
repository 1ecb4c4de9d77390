/* config_check.h - do the sizes of a Config fit together, within the limits of this build?
 *
 * Files are checked while they are read; this also holds for a Config that was made in code.
 */
#ifndef GRPO_MODEL_CONFIG_CHECK_H
#define GRPO_MODEL_CONFIG_CHECK_H

#include "model/config.h"

Status config_check(const Config *c, const char *what); /* `what` names it in messages */

#endif
