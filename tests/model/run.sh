#!/usr/bin/env bash
# Checks the model of the lease protocol: every invariant by itself, exhaustively, then every mutation
# of the protocol, each of which at least one invariant must catch.
#
#   tests/model/run.sh           everything: about two minutes on two idle cores, under 3 GiB
#   tests/model/run.sh --quick   smaller scenarios for continuous integration: under a minute
#   tests/model/run.sh --trace NAME   the steps by which the mutation of that name is caught, or by which
#                                a check fails ("I3 fault")
#
# The last line is `summary: states=N errors=N mutations=N caught=N`. The exit status is 0 only if no
# check errs, all mutations are caught, and the checks came by everything they are meant to see.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

quick=0 trace=
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1 ;;
    --trace) trace=${2:?--trace needs a name}; shift ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "run.sh: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done

if ! command -v spin >/dev/null || ! command -v gcc >/dev/null; then
  if [ -x "$here/../../deploy/install-deps.sh" ]; then
    "$here/../../deploy/install-deps.sh" build test || exit 1
  else
    as_root=(); [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y spin gcc libc6-dev || exit 1
  fi
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cores=$(nproc); [ "$cores" -le 2 ] || cores=2

# ---- scenarios: what may happen in a run (state.pmh). FAULT_KINDS is a sum of the FAULT_… there.
alone="-DSECOND_ACQUIRES=0 -DSECOND_LAUNCHES=0 -DOUTER_BUILDS=0"
declare -A scenario=(
  # One operation of either kind, two holders, any one fault.
  [fault]="-DFAULTS=1 -DACQUIRES=1 -DLAUNCHES=1 -DRELEASES=0 -DSECOND_LAUNCHES=0 -DOUTER_BUILDS=0"
  # Two holders that both launch, nothing goes wrong but delay.
  [delay]="-DFAULTS=0 -DACQUIRES=1 -DLAUNCHES=1 -DRELEASES=0 -DOUTER_BUILDS=0"
  # Acquires, releases and acquires again that overlap.
  [leases]="-DFAULTS=0 -DACQUIRES=2 -DLAUNCHES=2 -DRELEASES=1 -DSECOND_LAUNCHES=0 -DOUTER_BUILDS=0 -DASK_TWICE"
  # The same, of one client, over a stream that breaks once.
  [reconnect]="-DFAULTS=1 -DFAULT_KINDS=1 -DACQUIRES=2 -DLAUNCHES=1 -DRELEASES=1 -DKINDS=2 -DASK_TWICE $alone"
  # One holder whose stream breaks once.
  [cut]="-DFAULTS=1 -DFAULT_KINDS=1 -DACQUIRES=1 -DLAUNCHES=0 -DRELEASES=0 $alone"
  # Outer memos.
  [memo]="-DFAULTS=1 -DACQUIRES=1 -DLAUNCHES=0 -DRELEASES=0 -DSECOND_LAUNCHES=0"
  [memo-delay]="-DFAULTS=0 -DACQUIRES=2 -DLAUNCHES=0 -DRELEASES=0 -DSECOND_LAUNCHES=0"
  # Two operations that overlap: clears queue, destroys join, a destroy supersedes a clear.
  [overlap]="-DOPERATIONS=2 -DFAULTS=0 -DACQUIRES=1 -DLAUNCHES=1 -DRELEASES=0 $alone"
  # The same over a host that dies, hangs, is stuck, or runs an endless kernel.
  [overlap-host]="-DOPERATIONS=2 -DFAULTS=1 -DFAULT_KINDS=240 -DACQUIRES=1 -DLAUNCHES=1 -DRELEASES=0 $alone"
  # The same over a stream that breaks once.
  [overlap-cut]="-DOPERATIONS=2 -DFAULTS=1 -DFAULT_KINDS=1 -DACQUIRES=1 -DLAUNCHES=0 -DRELEASES=0 $alone"
)

# ---- checks: invariant and scenario
if [ $quick -eq 1 ]; then
  checks=("I1 delay" "I2 delay" "I3 overlap" "I4 memo-delay" "I5 delay" "I6 overlap-host")
else
  checks=("I1 fault" "I1 leases" "I1 overlap-cut" "I2 fault" "I3 fault" "I3 overlap" "I3 overlap-cut"
          "I4 memo" "I4 memo-delay" "I5 fault" "I5 delay" "I5 leases" "I5 reconnect"
          "I6 fault" "I6 overlap-host")
fi

declare -A meaning=(
  [I1]="released only when each holder acked, is gone, or grace is over"
  [I2]="nothing executes after its release"
  [I3]="BEFORE precedes release, AFTER follows; each heard once"
  [I4]="nothing built across a teardown is installed"
  [I5]="a valid launch before a Release or Ack is never refused"
  [I6]="every teardown ends"
)

# ---- mutations: name | macro | scenario | the invariants it is held against
mutations=(
  "no ack wait|NO_ACK_WAIT|delay|I1 I5"
  "no fence|NO_FENCE|delay|I2"
  "no second notification|NO_SECOND_NOTIFICATION|memo-delay|I3 I4"
  "no sequence numbers|NO_SEQUENCE_NUMBERS|delay|I5"
  "epoch not bumped|EPOCH_NOT_BUMPED|memo-delay|I4"
  "holder registered after the reply|HOLDER_AFTER_REPLY|delay|I1 I5"
  "ack not repeated after a resume|ACK_NOT_REPEATED|cut|I5"
  "fence waits without a bound|UNBOUNDED_FENCE_WAIT|fault|I6"
  "fence takes an unattached stream for a gone one|UNATTACHED_IS_GONE|delay|I5"
  "grant accepted though its release overtook it|GRANT_CROSSES_RELEASE|leases|I1 I5"
  "unclaimed grant releases a held lease|UNCLAIMED_GRANT_RELEASES|reconnect|I5"
  "superseded clear waits for the host's exit|SUPERSEDED_CLEAR_AWAITS_EXIT|overlap-host|I6"
)

if [ -n "$trace" ]; then
  # Only what has that name.
  kept=(); for check in "${checks[@]}"; do [ "$check" != "$trace" ] || kept+=("$check"); done
  checks=("${kept[@]}")
  kept=(); for mutation in "${mutations[@]}"; do [ "${mutation%%|*}" != "$trace" ] || kept+=("$mutation"); done
  mutations=("${kept[@]}")
fi

# ---- running

# model NAME INVARIANT SCENARIO [MACRO…]: builds and runs one search in $work/NAME; its verdict in
# $work/NAME/verdict: states errors seconds.
model() {
  local name=$1 invariant=$2 flags; shift 2
  read -ra flags <<<"${scenario[$1]} -DCHECK_$invariant -DWITNESSES"; shift
  local directory="$work/$name" kind=-DSAFETY claim=
  mkdir -p "$directory"; cd "$directory" || return
  # A mutation's search is short: there, compiling is what takes time.
  local optimize=-O1; case "$*" in *MUTATE*) optimize=-O0 ;; esac
  # I6 is a claim about infinite runs; the others are assertions.
  if [ "$invariant" = I6 ]; then kind=-DNOFAIR; claim=-a; fi
  printf '%s\n' "${flags[*]} $*" >flags
  if ! spin -a "${flags[@]}" "$@" "$here/lease_protocol.pml" >spin.log 2>&1 ||
     ! gcc "$optimize" -w "$kind" -DMEMLIM=2600 -DVECTORSZ=1024 -o pan pan.c >>spin.log 2>&1; then
    sed 's/^/run.sh: /' spin.log >&2
    echo "0 1 0" >verdict
    return
  fi
  ./pan $claim -m10000 -w23 >out 2>&1
  local states errors seconds
  states=$(awk '/states, stored/ { print $1; exit }' out)
  errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' out)
  seconds=$(awk '/elapsed time/ { print $4; exit }' out)
  # A search that was cut short has proved nothing.
  if [ -z "$states" ] || [ -z "$errors" ] || grep -q -e 'Search not completed' -e 'max search depth' out && [ "${errors:-0}" = 0 ]; then
    cat out >&2
    errors=1
  fi
  echo "${states:-0} $errors ${seconds:-0}" >verdict
  rm -f pan pan.[bchmpt]
}

running=0
start() {
  if [ $running -ge "$cores" ]; then wait -n; running=$((running - 1)); fi
  "$@" &
  running=$((running + 1))
}

slug() { tr -c 'a-zA-Z0-9\n' '-' <<<"$1"; }

for check in "${checks[@]}"; do
  read -r invariant where <<<"$check"
  start model "$(slug "$check")" "$invariant" "$where"
done
for mutation in "${mutations[@]}"; do
  IFS='|' read -r name macro where invariants <<<"$mutation"
  for invariant in $invariants; do
    start model "$(slug "$name $invariant")" "$invariant" "$where" "-DMUTATE_$macro"
  done
done
wait

# The steps that led there, by the names of the model's inlines.
print_trace() {
  local directory=$1 flags
  [ -e "$directory/lease_protocol.pml.trail" ] || { echo "run.sh: no trace there" >&2; return; }
  read -ra flags <"$directory/flags"
  (cd "$directory" && spin -k lease_protocol.pml.trail -t -p "${flags[@]}" "$here/lease_protocol.pml") |
    sed -n 's/^ *\([0-9]*\):.*proc *[0-9]* (\([A-Za-z]*\):[0-9]*) [^ ]*[/]\([a-z_]*\.pm[hl]\):\([0-9]*\) .*/\1 \2 \3 \4/p' |
    awk -v here="$here" '!seen[$1]++ {
      if (!($3 in read_already)) {
        read_already[$3] = 1; line = 0; current = ""
        while ((getline text < (here "/" $3)) > 0) {
          line++
          if (match(text, /^inline [A-Za-z]+/)) current = substr(text, 8, RLENGTH - 7)
          if (text ~ /^active proctype/) current = "(at rest)"
          step[$3, line] = current
        }
      }
      printf "%4d  %-13s %s\n", $1, $2, step[$3, $4]
    }'
}

if [ -n "$trace" ]; then
  found=0
  for directory in "$work/$(slug "$trace")"*; do
    [ -e "$directory/lease_protocol.pml.trail" ] || continue
    found=1
    echo "== ${directory##*/}: $(sed -n 's/^pan:[0-9]*: \(assertion violated\|acceptance cycle\).*/\1/p' "$directory/out")"
    print_trace "$directory"
  done
  [ $found -eq 1 ] || { echo "run.sh: nothing named '$trace' has a trace" >&2; exit 1; }
  exit 0
fi

# ---- the table
states=0 errors=0
printf '%-4s %-64s %-15s %10s %6s %7s\n' "" invariant scenario states errors seconds
for check in "${checks[@]}"; do
  read -r invariant where <<<"$check"
  read -r s e t <"$work/$(slug "$check")/verdict"
  printf '%-4s %-64s %-15s %10s %6s %7s\n' "$invariant" "${meaning[$invariant]}" "$where" "$s" "$e" "$t"
  states=$((states + s)); errors=$((errors + e))
  [ "$e" = 0 ] || print_trace "$work/$(slug "$check")"
done

caught=0
printf '\n%-48s %s\n' mutation "caught by"
for mutation in "${mutations[@]}"; do
  IFS='|' read -r name macro where invariants <<<"$mutation"
  by=
  for invariant in $invariants; do
    read -r s e t <"$work/$(slug "$name $invariant")/verdict"
    # A model that does not build has caught nothing.
    [ "$e" = 0 ] || [ "$s" = 0 ] || by="$by $invariant"
  done
  [ -z "$by" ] || caught=$((caught + 1))
  printf '%-48s%s\n' "$name" "${by:- NOT CAUGHT}"
done

# ---- what the checked runs came by: an invariant over runs without these would prove little
missing=0
if [ $quick -eq 0 ]; then
  directories=(); for check in "${checks[@]}"; do directories+=("$work/$(slug "$check")/out"); done
  grep -hs '^witness: ' "${directories[@]}" | sort -u >"$work/seen"
  sed -n 's/.*WITNESS([0-9]*, "\(.*\)").*/witness: \1/p' "$here"/*.pmh | sort -u >"$work/wanted"
  echo
  echo "situations that the checks came by: $(comm -12 "$work/seen" "$work/wanted" | wc -l) of $(wc -l <"$work/wanted")"
  comm -13 "$work/seen" "$work/wanted" | sed 's/^witness: /never seen: /'
  missing=$(comm -13 "$work/seen" "$work/wanted" | wc -l)
fi

echo "summary: states=$states errors=$errors mutations=${#mutations[@]} caught=$caught"
[ "$errors" -eq 0 ] && [ "$caught" -eq "${#mutations[@]}" ] && [ "$missing" -eq 0 ]
