/* fuzz_checkpoint.c - any files as a checkpoint: refused with one line that names them, in every
 * storage, or a model that computes and that, saved, can be loaded.
 *
 * The input is a config.json, a model.safetensors.index.json and the weights, separated by NULs.
 * The weights are model.safetensors, or, if the index is not empty, the first of its two shards,
 * "model-00001-of-00002.safetensors". */
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "files.h"
#include "forward.h"

static const char single[] = "model.safetensors", sharded[] = "model-00001-of-00002.safetensors",
                  listing[] = "model.safetensors.index.json";

static void check_saved(const Model *m, Storage storage) {
  Model *again = NULL;
  char dir[FUZZ_PATH];
  snprintf(dir, sizeof dir, "%s", fuzz_path("saved"));
  FUZZ_CHECK(save_model(m, dir, storage == STORE_NF4 ? WEIGHT_NF4 : WEIGHT_F32, 0) == GRPO_OK);
  FUZZ_CHECK(weights_load(&again, NULL, dir, storage) == GRPO_OK);
  FUZZ_CHECK(model_count(again) == model_count(m));
  model_release(again);
}

/* All storages load the same folders, but NF4 cannot hold a weight that is not finite. */
static bool as_before(Storage storage, Status s, Status before) {
  return storage == STORE_F32 || s == before ||
         (storage == STORE_NF4 && s == GRPO_EFORMAT && strstr(err_message(), "not finite"));
}

static void check_classifier(void) {
  static const int32_t ids[] = {0, 0, 0};
  Classifier *c = NULL;
  const Status s = weights_load_classifier(&c, NULL, fuzz_dir, STORE_F32, COMPUTE_F32);
  FUZZ_CHECK((s == GRPO_OK) == (c != NULL));
  if (c) {
    real *logits = malloc((size_t)c->labels * sizeof *logits);
    const int most = model_config(c->trunk)->max_position_embeddings;
    if (logits) (void)classifier_logits(c, 1, &(Sequence){ids, most < 3 ? most : 3}, logits);
    free(logits);
  } else {
    FUZZ_CHECK(strstr(err_message(), fuzz_dir) && !strchr(err_message(), '\n'));
  }
  classifier_free(c);
}

static void check_folder(void) {
  Status first = GRPO_OK;
  for (int storage = STORE_F32; storage <= STORE_NF4; storage++) {
    Model *m = NULL;
    const Status s = weights_load(&m, NULL, fuzz_dir, (Storage)storage);
    FUZZ_CHECK((s == GRPO_OK) == (m != NULL));
    FUZZ_CHECK(as_before((Storage)storage, s, first));
    first = s;
    if (s == GRPO_OK) {
      check_forward(m);
      check_saved(m, (Storage)storage);
    } else {
      FUZZ_CHECK(strstr(err_message(), fuzz_dir) && !strchr(err_message(), '\n'));
    }
    model_release(m);
  }
  check_classifier();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *config, *index;
  const size_t n = fuzz_part(&data, &size, &config), k = fuzz_part(&data, &size, &index);
  const char *weights = k ? sharded : single;
  unlink(fuzz_path(single));
  fuzz_put_file("config.json", config, n);
  if (k) fuzz_put_file(listing, index, k);
  fuzz_put_file(weights, data, size);
  check_folder();
  fuzz_refit_file(weights, data, size);
  check_folder();
  unlink(fuzz_path(listing));
  return 0;
}
