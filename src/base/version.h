/* version.h - the version and the commit of this build. */
#ifndef GRPO_BASE_VERSION_H
#define GRPO_BASE_VERSION_H

__attribute__((visibility("default"))) const char *grpo_version(void); /* "0.1.0" */
const char *grpo_commit(void); /* short hash, or "unknown" */

#endif
