/* core.c - the parts of grpo.core. */
#include "script/core.h"

#include "script/binding.h"

CorePart errors_open, limits_open, modules_open, system_open, random_open, json_open,
    serialize_open, regex_open, fs_open, tensor_open, tensor_new_open, autograd_open, loss_open,
    tokenizer_open, model_open, adapter_open, generate_open, score_open, edit_open, advantages_open,
    completion_open, options_open, checkpoint_open, engine_open, classifier_open, batch_open,
    rollout_open, update_open, ppo_open, sft_open, channel_open, process_open, foreign_open,
    key_order_open, grammar_open, http_server_open, client_open;

int open_core(lua_State *L) {
  /* A file that adds methods to a type comes after the file that makes the type. */
  static CorePart *const open[] = {
      errors_open,      key_order_open,  limits_open,    modules_open,    system_open,
      random_open,      json_open,       serialize_open, regex_open,      fs_open,
      tensor_open,      tensor_new_open, autograd_open,  loss_open,       tokenizer_open,
      model_open,       adapter_open,    generate_open,  score_open,      edit_open,
      advantages_open,  completion_open, options_open,   checkpoint_open, engine_open,
      batch_open,       rollout_open,    update_open,    ppo_open,        sft_open,
      channel_open,     process_open,    foreign_open,   classifier_open, grammar_open,
      http_server_open, client_open};
  lua_createtable(L, 0, 128);
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) open[i](L);
  for (const ExtensionPart *part = part_first(); part; part = part->next) part->open(L);
  return 1;
}
