/* Checkpoints of models with latent attention. */
#include "checkpoint/save.h"
#include "checkpoint/weights.h"
#include "model/modeltest.h"

static void check_round_trip(const char *shape, WeightType type, Storage storage) {
  const char *dir = test_path("%s/latent", test_tmp());
  Model *m = small_model(shape, NULL, 6), *back, *again;
  REQUIRE(save_model(m, dir, type, 0));
  REQUIRE(weights_load(&back, NULL, dir, storage));
  REQUIRE(save_model(back, dir, type, 0));
  REQUIRE(weights_load(&again, NULL, dir, STORE_F32));
  CHECK(model_num_params(again) == model_num_params(m));
  for (int i = 0; i < model_num_params(m); i++) {
    const Tensor *a = &model_param(m, i)->t, *b = &model_param(again, i)->t;
    CHECK_STR(model_param(m, i)->name, model_param(again, i)->name);
    CHECK(a->n == b->n && worst_difference(a->data, b->data, a->n) <=
                              (type == WEIGHT_F32 ? 0 : 0x1p-8 * largest_of(a->data, a->n)));
  }
  CHECK(!memcmp(model_config(again), model_config(back), offsetof(Config, layer_kind)));
  model_release(m), model_release(back), model_release(again);
}

TEST(a_saved_model_loads_again) {
  for (int k = 0; k < LATENT_SHAPES; k++) {
    check_round_trip(latent_shapes[k], WEIGHT_F32, STORE_F32);
    check_round_trip(latent_shapes[k], WEIGHT_BF16, STORE_AUTO);
    check_round_trip(latent_shapes[k], WEIGHT_BF16, STORE_BF16);
  }
}
