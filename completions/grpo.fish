# Completion of grpo's commands, flags, options, runs and files in fish.  Written by `make completions`.

function __grpo_runs
    for f in runs/*/run.json
        string replace -r '/run.json$' '' $f
        string replace -r '^runs/(.*)/run.json$' '$1' $f
    end
end

function __grpo_options
    printf '%s=\n' name seed threads compute extends model.path model.config model.tokenizer model.dtype model.quantize model.lora.rank model.lora.alpha model.lora.dropout model.lora.targets model.gradient_checkpointing model.chat_template reference data.shuffle data.max_prompt_tokens data.too_long sampling.group_size sampling.max_new_tokens sampling.temperature sampling.top_p sampling.top_k sampling.min_p sampling.repetition_penalty sampling.stop sampling.stop_regex reward.aggregate reward.on_error limits.reward.instructions limits.reward.memory limits.reward.seconds limits.tool.instructions limits.tool.memory limits.tool.seconds limits.hook.instructions limits.hook.memory limits.hook.seconds limits.schedule.instructions limits.schedule.memory limits.schedule.seconds turns.max turns.format train.steps train.epochs train.prompts_per_step train.iterations train.micro_batch_tokens train.loss train.clip train.clip_high train.delta train.importance train.advantage.scale train.advantage.baseline train.advantage.normalize train.kl train.kl_estimator train.kl_in train.kl_bias_correction train.off_policy_mask train.sampler_correction.mode train.sampler_correction.min train.sampler_correction.max train.entropy train.top_entropy_quantile train.mask_truncated train.sapo.pos train.sapo.neg train.vespo.k_pos train.vespo.lambda_pos train.vespo.k_neg train.vespo.lambda_neg train.cispo_cap train.ppo.critic train.ppo.gamma train.ppo.lambda train.ppo.value_coef train.ppo.clip_value train.ppo.minibatches train.ppo.whiten_rewards train.ppo.kl_coef train.ppo.kl_estimator train.denoise.mask_ratio train.denoise.random train.denoise.keep train.denoise.mask_prompt train.denoise.sample_steps train.denoise.sample_order train.skip_zero_std_groups train.lr train.optimizer.name train.optimizer.beta1 train.optimizer.beta2 train.optimizer.eps train.optimizer.weight_decay train.max_grad_norm train.sync_reference.every train.sync_reference.mixup train.reuse_rollout eval.every eval.samples eval.group_size eval.temperature eval.mask_ratio log.every log.completions log.tensorboard checkpoint.every checkpoint.keep checkpoint.best
end

complete -c grpo -f
complete -c grpo -n __fish_use_subcommand -l version -d 'versions of grpo and what it uses'
complete -c grpo -n __fish_use_subcommand -l help -s h -d 'the commands'

complete -c grpo -n __fish_use_subcommand -a run -d 'train what an experiment script describes'
complete -c grpo -n '__fish_seen_subcommand_from run' -a '(__fish_complete_suffix .lua) (__grpo_options)'
complete -c grpo -n '__fish_seen_subcommand_from run' -l detach -d 'go on in the background, whatever becomes of this terminal'
complete -c grpo -n '__fish_seen_subcommand_from run' -l dir -x -a '(__fish_complete_directories)' -d 'where run directories are made'
complete -c grpo -n '__fish_seen_subcommand_from run' -l force -d 'resume although the script or its inputs have changed'
complete -c grpo -n '__fish_seen_subcommand_from run' -l json -d 'the result line as JSON'
complete -c grpo -n '__fish_seen_subcommand_from run' -l quiet -d 'no progress on the screen'
complete -c grpo -n '__fish_seen_subcommand_from run' -l resume -a '(__grpo_runs)' -d 'go on with the newest unfinished run of this script'
complete -c grpo -n '__fish_seen_subcommand_from run' -l steps -x -d 'stop after N optimizer steps in all'
complete -c grpo -n '__fish_seen_subcommand_from run' -l threads -x -d 'threads (never changes a result)'
complete -c grpo -n '__fish_seen_subcommand_from run' -l arg -x -d 'an argument of the script\'s own'
complete -c grpo -n '__fish_seen_subcommand_from run' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a check -d 'validate, show prompts and scored samples, estimate memory and time; trains nothing'
complete -c grpo -n '__fish_seen_subcommand_from check' -a '(__fish_complete_suffix .lua) (__grpo_options)'
complete -c grpo -n '__fish_seen_subcommand_from check' -l threads -x -d 'threads (never changes a result)'
complete -c grpo -n '__fish_seen_subcommand_from check' -l arg -x -d 'an argument of the script\'s own'
complete -c grpo -n '__fish_seen_subcommand_from check' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a test -d 'run reward tests (files NAME_test.lua)'
complete -c grpo -n '__fish_seen_subcommand_from test' -a '(__fish_complete_path) (__fish_complete_directories)'
complete -c grpo -n '__fish_seen_subcommand_from test' -l filter -x
complete -c grpo -n '__fish_seen_subcommand_from test' -l fuzz -x -a '(__fish_complete_suffix .lua)' -d 'calls the rewards of SCRIPT (an experiment'
complete -c grpo -n '__fish_seen_subcommand_from test' -l junit -x -a '(__fish_complete_path)'
complete -c grpo -n '__fish_seen_subcommand_from test' -l n -x -d 'only the first N held-out rows'
complete -c grpo -n '__fish_seen_subcommand_from test' -l record -x -a '(__grpo_runs)' -d 'prints a test file made of N of the run\'s completions'
complete -c grpo -n '__fish_seen_subcommand_from test' -l tap
complete -c grpo -n '__fish_seen_subcommand_from test' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a repl -d 'interactive Lua with everything loaded'
complete -c grpo -n '__fish_seen_subcommand_from repl' -a '(__fish_complete_suffix .lua) (__fish_complete_directories) (__fish_complete_suffix .gguf) (__grpo_runs) (__grpo_options)'
complete -c grpo -n '__fish_seen_subcommand_from repl' -l compute -x -a 'f32 bf16' -d 'f32 or bf16'
complete -c grpo -n '__fish_seen_subcommand_from repl' -l threads -x -d 'threads (never changes a result)'
complete -c grpo -n '__fish_seen_subcommand_from repl' -l arg -x -d 'an argument of the script\'s own'
complete -c grpo -n '__fish_seen_subcommand_from repl' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a attach -d 'a Lua prompt inside a live run, between two steps'
complete -c grpo -n '__fish_seen_subcommand_from attach' -a '(__grpo_runs)'
complete -c grpo -n '__fish_seen_subcommand_from attach' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a eval -d 'evaluate only: accuracy, pass@k, samples'
complete -c grpo -n '__fish_seen_subcommand_from eval' -a '(__fish_complete_suffix .lua) (__grpo_runs) (__fish_complete_directories) (__grpo_options)'
complete -c grpo -n '__fish_seen_subcommand_from eval' -l json -d 'the report as JSON'
complete -c grpo -n '__fish_seen_subcommand_from eval' -l n -x -d 'only the first N held-out rows'
complete -c grpo -n '__fish_seen_subcommand_from eval' -l samples -x -d 'show N completions'
complete -c grpo -n '__fish_seen_subcommand_from eval' -l threads -x -d 'threads (never changes a result)'
complete -c grpo -n '__fish_seen_subcommand_from eval' -l arg -x -d 'an argument of the script\'s own'
complete -c grpo -n '__fish_seen_subcommand_from eval' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a generate -d 'sample from a model, a run, a checkpoint or an adapter'
complete -c grpo -n '__fish_seen_subcommand_from generate' -a '(__fish_complete_directories) (__fish_complete_suffix .gguf)'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l base -x -a '(__fish_complete_directories)' -d 'the model that an adapter belongs to'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l compute -x -a 'f32 bf16' -d 'f32 or bf16'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l json -d 'JSON Lines'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l max -x -d 'longest one in tokens'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l n -x -d 'completions'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l quantize -x -a 'nf4 int8' -d 'nf4 or int8'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l seed -x -d 'the same seed, the same text'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l temperature -x -d '0 is greedy'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l threads -x -d 'threads (never changes a result)'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l top-k -x -d 'as in sampling'
complete -c grpo -n '__fish_seen_subcommand_from generate' -l top-p -x
complete -c grpo -n '__fish_seen_subcommand_from generate' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a chat -d 'talk to a model, a run, a checkpoint or an adapter'
complete -c grpo -n '__fish_seen_subcommand_from chat' -a '(__fish_complete_directories) (__fish_complete_suffix .gguf)'
complete -c grpo -n '__fish_seen_subcommand_from chat' -l base -x -a '(__fish_complete_directories)' -d 'the model that an adapter belongs to'
complete -c grpo -n '__fish_seen_subcommand_from chat' -l compute -x -a 'f32 bf16' -d 'f32 or bf16'
complete -c grpo -n '__fish_seen_subcommand_from chat' -l max -x -d 'longest answer in tokens'
complete -c grpo -n '__fish_seen_subcommand_from chat' -l min-p -x
complete -c grpo -n '__fish_seen_subcommand_from chat' -l quantize -x -a 'nf4 int8' -d 'nf4 or int8'
complete -c grpo -n '__fish_seen_subcommand_from chat' -l seed -x -d 'another conversation from the same words'
complete -c grpo -n '__fish_seen_subcommand_from chat' -l system -x -d 'what the model is told first'
complete -c grpo -n '__fish_seen_subcommand_from chat' -l temperature -x -d '0 is greedy'
complete -c grpo -n '__fish_seen_subcommand_from chat' -l threads -x -d 'threads (never changes a result)'
complete -c grpo -n '__fish_seen_subcommand_from chat' -l top-k -x -d 'as in sampling'
complete -c grpo -n '__fish_seen_subcommand_from chat' -l top-p -x
complete -c grpo -n '__fish_seen_subcommand_from chat' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a export -d 'write a model for transformers, PEFT or llama.cpp'
complete -c grpo -n '__fish_seen_subcommand_from export' -a '(__grpo_runs) (__fish_complete_directories) (__fish_complete_suffix .gguf) (__fish_complete_path)'
complete -c grpo -n '__fish_seen_subcommand_from export' -l base -x -a '(__fish_complete_directories)' -d 'the model that an adapter belongs to'
complete -c grpo -n '__fish_seen_subcommand_from export' -l dtype -x -a 'f32 bf16 f16' -d 'f32, bf16 or f16'
complete -c grpo -n '__fish_seen_subcommand_from export' -l force -d 'replace OUT'
complete -c grpo -n '__fish_seen_subcommand_from export' -l format -x -a 'hf adapter gguf' -d 'a directory that transformers loads as it is'
complete -c grpo -n '__fish_seen_subcommand_from export' -l merge -d 'an adapter merged into its base model'
complete -c grpo -n '__fish_seen_subcommand_from export' -l quantize -x -a 'nf4 q8_0 q4_0' -d 'hf'
complete -c grpo -n '__fish_seen_subcommand_from export' -l threads -x -d 'threads (never changes a result)'
complete -c grpo -n '__fish_seen_subcommand_from export' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a runs -d 'list runs, newest first, with state'
complete -c grpo -n '__fish_seen_subcommand_from runs' -l dir -x -a '(__fish_complete_directories)' -d 'where run directories are made'
complete -c grpo -n '__fish_seen_subcommand_from runs' -l json -d 'JSON Lines'
complete -c grpo -n '__fish_seen_subcommand_from runs' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a logs -d 'what a run has said, and with -f what it says'
complete -c grpo -n '__fish_seen_subcommand_from logs' -a '(__grpo_runs)'
complete -c grpo -n '__fish_seen_subcommand_from logs' -l dir -x -a '(__fish_complete_directories)' -d 'where the run directories are'
complete -c grpo -n '__fish_seen_subcommand_from logs' -l follow -s f -d 'go on until the run ends'
complete -c grpo -n '__fish_seen_subcommand_from logs' -l lines -s n -x -d 'the last N lines only'
complete -c grpo -n '__fish_seen_subcommand_from logs' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a stop -d 'end a run that is going on, after a checkpoint'
complete -c grpo -n '__fish_seen_subcommand_from stop' -a '(__grpo_runs)'
complete -c grpo -n '__fish_seen_subcommand_from stop' -l dir -x -a '(__fish_complete_directories)' -d 'where the run directories are'
complete -c grpo -n '__fish_seen_subcommand_from stop' -l now -d 'at once, without a checkpoint'
complete -c grpo -n '__fish_seen_subcommand_from stop' -l wait -x -d 'wait so long at most'
complete -c grpo -n '__fish_seen_subcommand_from stop' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a report -d 'one self-contained HTML file: curves and a browser of completions'
complete -c grpo -n '__fish_seen_subcommand_from report' -a '(__grpo_runs)'
complete -c grpo -n '__fish_seen_subcommand_from report' -l completions -x -d 'about N completions at most, of evenly spaced steps'
complete -c grpo -n '__fish_seen_subcommand_from report' -l out -x -a '(__fish_complete_path)' -d 'another file'
complete -c grpo -n '__fish_seen_subcommand_from report' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a replay -d 'show saved completions with their rewards; score them again with changed code'
complete -c grpo -n '__fish_seen_subcommand_from replay' -a '(__grpo_runs)'
complete -c grpo -n '__fish_seen_subcommand_from replay' -l json -d 'one object a completion, each on a line of its own'
complete -c grpo -n '__fish_seen_subcommand_from replay' -l n -x -d 'prompts shown, or changed completions'
complete -c grpo -n '__fish_seen_subcommand_from replay' -l regenerate -d 'samples STEP\'s completions once more, from the nearest checkpoint before it'
complete -c grpo -n '__fish_seen_subcommand_from replay' -l reward -x -a '(__fish_complete_path)' -d 'scores saved completions again, those of STEP or of all steps, with the rewards of FILE'
complete -c grpo -n '__fish_seen_subcommand_from replay' -l arg -x -d 'an argument of the script\'s own'
complete -c grpo -n '__fish_seen_subcommand_from replay' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a diff -d 'two runs: what was set differently, where they part, how they ended'
complete -c grpo -n '__fish_seen_subcommand_from diff' -a '(__grpo_runs)'
complete -c grpo -n '__fish_seen_subcommand_from diff' -l json -d 'all of it as one object'
complete -c grpo -n '__fish_seen_subcommand_from diff' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a init -d 'a runnable starter project'
complete -c grpo -n '__fish_seen_subcommand_from init' -a '(__fish_complete_directories)'
complete -c grpo -n '__fish_seen_subcommand_from init' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a bench -d 'this machine\'s speed on fixed workloads, as a table'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l base -x -a 'f32 bf16' -d 'the model that an adapter belongs to'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l check -x -a '(__fish_complete_path)'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l compute -x -a 'f32 bf16 both' -d 'f32 or bf16'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l json -d 'the result line as JSON'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l reuse -x -a 'on off both'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l runs -x
complete -c grpo -n '__fish_seen_subcommand_from bench' -l sharing -x -a 'on off both'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l threads -x -d 'threads (never changes a result)'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l weights -x -a 'f32 bf16 int8 nf4'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l workload -x -a 'W1 W2 W3 W4 decode matrices kernels smoke'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l write-expected -x -a '(__fish_complete_path)'
complete -c grpo -n '__fish_seen_subcommand_from bench' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a doctor -d 'versions, CPU, BLAS kernel, memory: what a bug report needs'
complete -c grpo -n '__fish_seen_subcommand_from doctor' -l json -d 'the result line as JSON'
complete -c grpo -n '__fish_seen_subcommand_from doctor' -l help -s h -d 'how the command is used'

complete -c grpo -n __fish_use_subcommand -a help -d 'this list, or the help of one command, option or function'
complete -c grpo -n '__fish_seen_subcommand_from help' -a 'run check test repl attach eval generate chat export runs logs stop report replay diff init bench doctor help'
complete -c grpo -n '__fish_seen_subcommand_from help' -l help -s h -d 'how the command is used'
