#include "base/version.h"

const char *grpo_version(void) { return GRPO_VERSION; }
const char *grpo_commit(void) { return GRPO_COMMIT; }
