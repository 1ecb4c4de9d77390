#!/usr/bin/env bash
# The job script of examples/deploy, with stand-ins for srun and scontrol: signals, a checkpoint, another job that goes on.
# TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
# shellcheck source=tests/cli/lib/ranks.bash
. "$root/tests/cli/lib/ranks.bash"
write_experiment exp.lua
"$GRPO" run exp.lua --quiet --dir whole >/dev/null 2>&1

# srun starts as many processes as the job has tasks; scontrol writes down what it was asked for
mkdir bin
cat >bin/srun <<'SH'
#!/bin/sh
echo "srun $*" >>asked
while case $1 in --*) true ;; *) false ;; esac; do shift; done
[ "$SLURM_NTASKS" = 1 ] && exec "$@"
case $kind in
  openmpi) exec mpirun.openmpi --oversubscribe --bind-to none -n "$SLURM_NTASKS" "$@" ;;
  mpich) exec mpirun.mpich -n "$SLURM_NTASKS" "$@" ;;
esac
SH
printf '#!/bin/sh\necho "scontrol $*" >>asked\n' >bin/scontrol
chmod +x bin/*

# job TASKS : the job script, as sbatch starts it
job() {
  SLURM_JOB_ID=77 SLURM_NTASKS=$1 SLURM_CPUS_PER_TASK=1 GRPO_RUNS=$kind kind=$kind PATH=$PWD/bin:$PATH \
    timeout 120 bash "$root/examples/deploy/grpo.slurm" exp.lua train.max_grad_norm=1 >out 2>err
}

# slurm_signals NAME : what Slurm does with all processes of the job step
slurm_signals() { pkill "-$1" -f "^$GRPO run exp.lua .*--dir $kind "; }

for kind in one openmpi mpich; do
  tasks=3
  if [ $kind = one ]; then tasks=1; elif ! has $kind; then result "$kind: # SKIP its mpirun or its header is not here"; continue; fi
  : >asked
  SLOW=0.2 job $tasks & pid=$!
  wait_for_step $kind/exp-001 3
  slurm_signals USR1
  steps=$(wc -l <$kind/exp-001/metrics.jsonl)
  for _ in $(seq 200); do [ "$(wc -l <$kind/exp-001/metrics.jsonl)" -lt $((steps + 3)) ] && sleep 0.05; done
  result "$kind, $tasks tasks: after SIGUSR1 the run goes on, with a checkpoint" "$([ -e $kind/exp-001/latest ] && kill -0 $pid || show err)"
  slurm_signals TERM
  wait $pid; status=$?
  result "$kind: SIGTERM ends it after a checkpoint, and the job is queued again" "$(
    { [ $status = 143 ] && tail -n 1 asked | grep -qx 'scontrol requeue 77' && grep -q '"state": "interrupted"' $kind/exp-001/run.json; } ||
      { echo "status $status"; show asked err; grep state $kind/exp-001/run.json; })"
  job $((tasks == 1 ? 1 : 2)); status=$?
  result "$kind: the next job goes on and ends it, with the same bits" "$([ $status = 0 ] || show err; different whole/exp-001 $kind/exp-001)"
  result "$kind: and is not queued again" "$([ "$(grep -c scontrol asked)" = 1 ] || show asked)"
done
finish
