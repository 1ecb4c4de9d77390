/* peft.h - adapters on disk: the folder that PEFT writes, adapter_config.json and
 * adapter_model.safetensors. */
#ifndef GRPO_CHECKPOINT_PEFT_H
#define GRPO_CHECKPOINT_PEFT_H

#include "model/model.h"

/* A folder onto a model without an adapter.  EFORMAT, one line, for every option that would change
 * the result and is not supported, and for missing, foreign or misshapen tensors. */
Status peft_load(Model *m, const char *dir);
/* Gives the model an adapter by adapter_config.json's text (`where` names it in messages): names
 * and shapes of A and B, without memory for weights (lora_attach). */
Status peft_attach(Model *m, const char *config, size_t len, const char *where);
/* base_name: base_model_name_or_path, perhaps "NAME@COMMIT" of the Hub; NULL: as it was loaded, or
 * empty.  Save, load, save gives the same bytes. */
Status peft_save(const Model *m, const char *dir, const char *base_name);

#endif
