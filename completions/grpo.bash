# Completion of grpo's commands, flags, options, runs and files in bash.  Written by `make completions`.
# shellcheck shell=bash

# What a kind of word may be: $1 the kind, $2 what is typed so far.
_grpo_words() {
  local f
  case $1 in
    script)
      for f in lua json yaml yml; do compgen -f -X "!*.$f" -- "$2"; done
      compgen -d -S / -- "$2" ;;
    run)
      for f in runs/*/run.json; do
        [ -e "$f" ] || continue
        f=${f%/run.json}
        [[ $f == "$2"* ]] && echo "$f"
        [[ ${f#runs/} == "$2"* ]] && echo "${f#runs/}"
      done ;;
    model) compgen -d -- "$2"; compgen -f -X '!*.gguf' -- "$2" ;;
    dir) compgen -d -- "$2" ;;
    file) compgen -f -- "$2" ;;
    command) compgen -W "run sweep check test repl attach eval generate chat pull export runs logs stop report replay diff init bench doctor help" -- "$2" ;;
    option) compgen -S = -W "name seed threads compute extends model.path model.config model.tokenizer model.dtype model.quantize model.lora.rank model.lora.alpha model.lora.dropout model.lora.targets model.chat_template model.gradient_checkpointing reference data.shuffle data.too_long data.max_prompt_tokens sampling.group_size sampling.renormalize sampling.max_new_tokens sampling.temperature sampling.top_p sampling.top_k sampling.min_p sampling.repetition_penalty sampling.stop sampling.stop_regex reward.aggregate reward.on_error limits.reward.instructions limits.reward.memory limits.reward.seconds limits.tool.instructions limits.tool.memory limits.tool.seconds limits.hook.instructions limits.hook.memory limits.hook.seconds limits.schedule.instructions limits.schedule.memory limits.schedule.seconds turns.max turns.format train.steps train.epochs train.prompts_per_step train.iterations train.micro_batch_tokens train.gradient_blocks train.lr train.max_grad_norm train.on_nonfinite train.optimizer.name train.optimizer.beta1 train.optimizer.beta2 train.optimizer.eps train.optimizer.weight_decay train.reuse_rollout train.skip_zero_std_groups train.advantage.scale train.advantage.baseline train.advantage.normalize train.loss train.kl_in train.clip train.clip_high train.delta train.importance train.kl train.kl_estimator train.kl_bias_correction train.off_policy_mask train.sampler_correction.mode train.sampler_correction.min train.sampler_correction.max train.entropy train.top_entropy_quantile train.mask_truncated train.sapo.pos train.sapo.neg train.vespo.k_pos train.vespo.lambda_pos train.vespo.k_neg train.vespo.lambda_neg train.cispo_cap train.sync_reference.every train.sync_reference.mixup train.ppo.critic train.ppo.gamma train.ppo.lambda train.ppo.value_coef train.ppo.clip_value train.ppo.minibatches train.ppo.whiten_rewards train.ppo.kl_coef train.ppo.kl_estimator train.denoise.mask_ratio train.denoise.random train.denoise.keep train.denoise.mask_prompt train.denoise.sample_steps train.denoise.sample_order eval.every eval.every_epochs eval.samples eval.group_size eval.temperature eval.max_new_tokens eval.mask_ratio log.every log.completions log.tensorboard checkpoint.every checkpoint.every_epochs checkpoint.keep checkpoint.best" -- "$2" ;;
  esac
}

_grpo() {
  local cur=${COMP_WORDS[COMP_CWORD]} before='' equals='' kinds='' choices='' flags='' kind line
  COMPREPLY=()
  [ "$COMP_CWORD" -gt 0 ] && before=${COMP_WORDS[COMP_CWORD - 1]}
  # "--flag=x" and "key=x" are three words here
  if [ "$cur" = = ]; then
    cur='' equals=1
  elif [ "$before" = = ] && [ "$COMP_CWORD" -gt 1 ]; then
    before=${COMP_WORDS[COMP_CWORD - 2]} equals=1
  elif [[ $before != -* ]]; then
    before=''
  fi
  if [ "$COMP_CWORD" = 1 ]; then
    kinds=command flags='--help --version --trace'
  else
    case ${COMP_WORDS[1]} in
      run)
        flags='--resume --force --steps --arg --memory --threads --dir --as --detach --quiet --json --help -h --trace'
        case $before in
          --resume) if [ -n "$equals" ]; then kinds=run; else kinds='script option'; fi ;;
          --steps) : ;;
          --arg) : ;;
          --memory) : ;;
          --threads) : ;;
          --dir) kinds=dir ;;
          --as) : ;;
          *) kinds='script option' ;;
        esac ;;
      sweep)
        flags='--seeds --jobs --metric --retry --force --arg --memory --threads --dir --quiet --json --help -h --trace'
        case $before in
          --seeds) : ;;
          --jobs) : ;;
          --metric) : ;;
          --arg) : ;;
          --memory) : ;;
          --threads) : ;;
          --dir) kinds=dir ;;
          *) kinds='script option' ;;
        esac ;;
      check)
        flags='--arg --memory --threads --ranks --link --help -h --trace'
        case $before in
          --arg) : ;;
          --memory) : ;;
          --threads) : ;;
          --ranks) : ;;
          --link) : ;;
          *) kinds='script option' ;;
        esac ;;
      test)
        flags='--filter --tap --junit --record --fuzz --count --arg --help -h --trace'
        case $before in
          --filter) : ;;
          --junit) kinds=file ;;
          --record) kinds=run ;;
          --fuzz) kinds=script ;;
          --count) : ;;
          --arg) : ;;
          *) kinds='file dir' ;;
        esac ;;
      repl)
        flags='--arg --compute --memory --threads --help -h --trace'
        case $before in
          --arg) : ;;
          --compute) choices='f32 bf16' ;;
          --memory) : ;;
          --threads) : ;;
          *) kinds='script model run option' ;;
        esac ;;
      attach)
        flags='--help -h --trace'
        case $before in
          *) kinds='run' ;;
        esac ;;
      eval)
        flags='--arg --rows --completions --memory --threads --json --help -h --trace'
        case $before in
          --arg) : ;;
          --rows) : ;;
          --completions) : ;;
          --memory) : ;;
          --threads) : ;;
          *) kinds='script run dir option' ;;
        esac ;;
      generate)
        flags='--completions --max-new-tokens --temperature --top-p --top-k --seed --quantize --compute --base --memory --threads --json --help -h --trace'
        case $before in
          --completions) : ;;
          --max-new-tokens) : ;;
          --temperature) : ;;
          --top-p) : ;;
          --top-k) : ;;
          --seed) : ;;
          --quantize) choices='nf4 int8' ;;
          --compute) choices='f32 bf16' ;;
          --base) kinds=dir ;;
          --memory) : ;;
          --threads) : ;;
          *) kinds='model' ;;
        esac ;;
      chat)
        flags='--system --chat-template-kwargs --max-new-tokens --temperature --top-p --top-k --min-p --seed --quantize --compute --base --memory --threads --help -h --trace'
        case $before in
          --system) : ;;
          --chat-template-kwargs) : ;;
          --max-new-tokens) : ;;
          --temperature) : ;;
          --top-p) : ;;
          --top-k) : ;;
          --min-p) : ;;
          --seed) : ;;
          --quantize) choices='nf4 int8' ;;
          --compute) choices='f32 bf16' ;;
          --base) kinds=dir ;;
          --memory) : ;;
          --threads) : ;;
          *) kinds='model' ;;
        esac ;;
      pull)
        flags='--dataset --include --json --help -h --trace'
        case $before in
          --include) : ;;
          *) kinds='' ;;
        esac ;;
      export)
        flags='--format --merge --quantize --dtype --base --force --memory --threads --help -h --trace'
        case $before in
          --format) choices='hf adapter gguf' ;;
          --quantize) choices='nf4 q8_0 q4_0' ;;
          --dtype) choices='f32 bf16 f16' ;;
          --base) kinds=dir ;;
          --memory) : ;;
          --threads) : ;;
          *) kinds='model run file' ;;
        esac ;;
      runs)
        flags='--dir --json --help -h --trace'
        case $before in
          --dir) kinds=dir ;;
          *) kinds='' ;;
        esac ;;
      logs)
        flags='--follow -f --lines -n --dir --help -h --trace'
        case $before in
          --lines | -n) : ;;
          --dir) kinds=dir ;;
          *) kinds='run' ;;
        esac ;;
      stop)
        flags='--now --wait --dir --help -h --trace'
        case $before in
          --wait) : ;;
          --dir) kinds=dir ;;
          *) kinds='run' ;;
        esac ;;
      report)
        flags='--out --completions --smooth --serve --port --log --help -h --trace'
        case $before in
          --out) kinds=file ;;
          --completions) : ;;
          --smooth) : ;;
          --port) : ;;
          *) kinds='run' ;;
        esac ;;
      replay)
        flags='--reward --regenerate --nonfinite --count --arg --json --help -h --trace'
        case $before in
          --reward) kinds=file ;;
          --count) : ;;
          --arg) : ;;
          *) kinds='run' ;;
        esac ;;
      diff)
        flags='--json --help -h --trace'
        case $before in
          *) kinds='run' ;;
        esac ;;
      init)
        flags='--help -h --trace'
        case $before in
          *) kinds='dir' ;;
        esac ;;
      bench)
        flags='--workload --compute --sharing --reuse --frozen --weights --runs --ranks --threads --check --write-expected --json --help -h --trace'
        case $before in
          --workload) choices='W1 W2 W3 W4 decode matrices kernels smoke' ;;
          --compute) choices='f32 bf16 both' ;;
          --sharing) choices='on off both' ;;
          --reuse) choices='on off both' ;;
          --frozen) choices='f32 bf16' ;;
          --weights) choices='f32 bf16 int8 nf4' ;;
          --runs) : ;;
          --ranks) : ;;
          --threads) : ;;
          --check) kinds=file ;;
          --write-expected) kinds=file ;;
          *) kinds='' ;;
        esac ;;
      doctor)
        flags='--json --help -h --trace'
        case $before in
          *) kinds='' ;;
        esac ;;
      help)
        flags='--help -h --trace'
        case $before in
          *) kinds='command' ;;
        esac ;;
    esac
    case $before in
      compute) kinds='' choices='f32 bf16' ;;
      model.dtype) kinds='' choices='f32 bf16 auto' ;;
      model.quantize) kinds='' choices='nf4 int8' ;;
      model.chat_template) kinds='' choices='true false' ;;
      model.gradient_checkpointing) kinds='' choices='true false' ;;
      reference) kinds='' choices='true false' ;;
      data.shuffle) kinds='' choices='true false' ;;
      data.too_long) kinds='' choices='drop truncate_left error' ;;
      sampling.renormalize) kinds='' choices='true false' ;;
      reward.aggregate) kinds='' choices='sum normalize_then_sum' ;;
      reward.on_error) kinds='' choices='stop zero skip' ;;
      turns.format) kinds='' choices='auto chat json compact' ;;
      train.on_nonfinite) kinds='' choices='stop skip' ;;
      train.optimizer.name) kinds='' choices='adamw adamw_8bit lion' ;;
      train.reuse_rollout) kinds='' choices='auto true false' ;;
      train.skip_zero_std_groups) kinds='' choices='true false' ;;
      train.advantage.scale) kinds='' choices='group batch none' ;;
      train.advantage.baseline) kinds='' choices='mean leave_one_out none' ;;
      train.advantage.normalize) kinds='' choices='true false' ;;
      train.loss) kinds='' choices='grpo bnpo dr_grpo dapo gspo gspo_token luspo gmpo cispo sapo vespo reinforce rloo' ;;
      train.kl_in) kinds='' choices='loss reward' ;;
      train.importance) kinds='' choices='token sequence' ;;
      train.kl_estimator) kinds='' choices='k1 k2 k3 full' ;;
      train.kl_bias_correction) kinds='' choices='true false' ;;
      train.sampler_correction.mode) kinds='' choices='token_truncate token_mask sequence_truncate sequence_mask' ;;
      train.mask_truncated) kinds='' choices='true false' ;;
      train.ppo.critic) kinds='' choices='shared separate' ;;
      train.ppo.whiten_rewards) kinds='' choices='true false' ;;
      train.ppo.kl_estimator) kinds='' choices='k1 k2 k3' ;;
      train.denoise.mask_prompt) kinds='' choices='true false' ;;
      train.denoise.sample_order) kinds='' choices='confidence random left' ;;
      log.tensorboard) kinds='' choices='true false' ;;
    esac
  fi
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
    return
  fi
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
    [ -z "$choices" ] || compgen -W "$choices" -- "$cur"
    for kind in $kinds; do _grpo_words "$kind" "$cur"; done)
  # a directory or "key=" is not the end of a word
  if [ "${#COMPREPLY[@]}" = 1 ] && [[ ${COMPREPLY[0]} == *[=/] ]]; then
    compopt -o nospace 2>/dev/null
  fi
  return 0
}

complete -F _grpo grpo
