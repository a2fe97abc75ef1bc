# shellcheck shell=bash
# The stage `corpus` of run.sh, which sources it: other people's programs on this machine's devices.
# Uses run.sh's variables bin, data, logs, corpora, limit and scripts (where tests/corpus's scripts are), and its row.

. "$scripts/daemon.sh"

# Into devices.log, what there is and why the rest is not.
corpus_devices() {
  local directory status=0
  directory=$(mktemp -d "$logs/daemon.XXXXXX")
  { private_daemon "$directory" "$bin" \
      --backends.directories="$bin/backends/cuda:$bin/backends/hip:$bin/backends/opencl:$bin/backends/vulkan" &&
    control devices >"$logs/devices.log"; } || status=1
  end_private_daemon
  unset KCACHE_SOCKET KCACHE_ADMIN_SOCKET  # the corpora have daemons of their own
  return $status
}

# corpus_row NAME FAMILY COMMAND …: its exit status and the line that it ends with. Where the family
# has no device, why.
corpus_row() {
  local name=$1 family=$2 log=$logs/corpus-${1// /-}.log start=$SECONDS status
  shift 2
  if ! grep -q "^$family:0 " "$logs/devices.log"; then
    row "corpus $name" "no device: $(sed -n "s/^$family is not available: //p" "$logs/devices.log")"
    # Where NVIDIA's tool answers there is a card, and CUDA has to find it.
    [ "$family" != CUDA ] || ! nvidia-smi >/dev/null 2>&1 || failed=$((failed + 1))
    return
  fi
  KCACHE_BINARY_DIR=$bin timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1; status=$?
  [ $status -eq 0 ] ||
    { failed=$((failed + 1)); grep -E '^(FAILED|WRONG|ours:)|took more than' "$log" | cut -c1-300 | head -40; tail -n 15 "$log"; }
  row "corpus $name" "exit $status$([ $status -ne 124 ] || echo " (still running after $limit s)"), $((SECONDS - start)) s; $(tail -n 1 "$log")"
}

run_corpus() {
  local corpus program jobs pipelines=1000
  jobs=$(nproc)
  chmod 711 "$logs"
  corpus_devices || { failed=$((failed + 1)); row "corpus" "the daemon did not start"; return; }
  cat "$logs/devices.log"
  # In software a pipeline takes seconds, so there only the default is made; else all are.
  ! grep -q '^Vulkan:0 .*llvmpipe' "$logs/devices.log" || pipelines=150
  for corpus in $corpora; do
    case $corpus in
      darktable|piglit)
        # That the second process takes a fiftieth of the first is said of compiles on two cores. A driver that opens
        # its device to compile does so once a worker, not once a program.
        corpus_row "$corpus" OpenCL \
          "$scripts/opencl.sh" --programs "$bin" --data "$data" --jobs "$jobs" --limit $((limit * 3 / 4)) \
            --most-ratio 1 --flag --compile.jobs-per-worker=64 "$corpus" ;;
      cub) corpus_row cub CUDA "$bin/tests/corpus/cub/corpus_cub" --daemon --jobs="$jobs" ;;
      vulkan)
        corpus_row vulkan Vulkan "$bin/tests/corpus/vulkan/corpus_vulkan" --record="$data/vulkan/record.tsv" \
          --pipelines=$pipelines --seconds-each=30 --seconds=$((limit / 2)) ;;
      vkfft)
        # The family is the last part of the program's name.
        for program in "$bin"/tests/corpus/vkfft/corpus_vkfft_*; do
          [ -x "$program" ] && [ ! -d "$program" ] ||
            { failed=$((failed + 1)); row "corpus vkfft" "no program of it is here"; continue; }
          case $program in
            *_cuda) corpus_row "vkfft CUDA" CUDA "$program" --daemon ;;
            *_hip) corpus_row "vkfft HIP" HIP "$program" --daemon ;;
            *_vulkan) corpus_row "vkfft Vulkan" Vulkan "$program" --daemon ;;
            *_opencl) corpus_row "vkfft OpenCL" OpenCL "$program" --daemon ;;
          esac
        done ;;
      *) failed=$((failed + 1)); row "corpus $corpus" "there is no such corpus" ;;
    esac
  done
}
