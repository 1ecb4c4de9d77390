/* panels.h - which weights of a model products read from a backend's copy (grad/panel_cache.h). */
#ifndef GRPO_MODEL_PANELS_H
#define GRPO_MODEL_PANELS_H

#include "model/model_struct.h"

bool panels_has(const Model *m, const Tensor *t); /* is it a weight that a product reads? */
/* After a failure there are none, and the next panels_renew makes them. */
Status panels_allocate(Model *m);
Status panels_fit(Model *m); /* allocates where training needs others than there are */
/* Packs stale panels, including those of the adapter and of shared weights.  Forward functions call
 * it. */
Status panels_renew(Model *m, const Ctx *cx);

#endif
