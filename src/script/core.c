#include "script/core.h"

#include <stddef.h>

#include "script/foreign_vm.h"
#include "script/lua_adapter.h"
#include "script/lua_advantages.h"
#include "script/lua_autograd.h"
#include "script/lua_batch.h"
#include "script/lua_bigram.h"
#include "script/lua_channel.h"
#include "script/lua_checkpoint.h"
#include "script/lua_denoise.h"
#include "script/lua_edit.h"
#include "script/lua_engine.h"
#include "script/lua_errors.h"
#include "script/lua_fs.h"
#include "script/lua_generate.h"
#include "script/lua_json.h"
#include "script/lua_limits.h"
#include "script/lua_loss.h"
#include "script/lua_model.h"
#include "script/lua_options.h"
#include "script/lua_ppo.h"
#include "script/lua_process.h"
#include "script/lua_random.h"
#include "script/lua_regex.h"
#include "script/lua_rollout.h"
#include "script/lua_sandbox.h"
#include "script/lua_score.h"
#include "script/lua_serialize.h"
#include "script/lua_sft.h"
#include "script/lua_system.h"
#include "script/lua_tensor.h"
#include "script/lua_tensor_new.h"
#include "script/lua_text.h"
#include "script/lua_unmask.h"
#include "script/lua_update.h"
#include "script/modules.h"

int open_core(lua_State *L) {
  /* A file that adds methods to a type comes after the file that makes the type. */
  static void (*const open[])(lua_State *) = {
      errors_open,    limits_open,  modules_open,    system_open,  random_open,     json_open,
      serialize_open, regex_open,   fs_open,         tensor_open,  tensor_new_open, autograd_open,
      loss_open,      text_open,    model_open,      adapter_open, generate_open,   score_open,
      unmask_open,    edit_open,    advantages_open, options_open, checkpoint_open, bigram_open,
      engine_open,    batch_open,   rollout_open,    update_open,  ppo_open,        sft_open,
      denoise_open,   channel_open, process_open,    foreign_open, sandbox_open};
  lua_createtable(L, 0, 128);
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) open[i](L);
  return 1;
}
