#!/usr/bin/env bash
# Checks on a machine with NVIDIA cards what no other machine can show: that
# modeldock-nvml counts the cards that nvidia-smi does, that memory which a
# process really takes is seen and seen to come back, and that a card's health
# is read. It takes less than a minute, changes no setting of any card, and
# prints a PASS or FAIL line for each check; the exit status is 0 only if all
# passed.
#
#     test/gpu/check.sh [FOLDER]     writes its evidence there (default: a temporary one)
#
# It needs nvidia-smi, python3, and Go with a C compiler; or what was built
# elsewhere: modeldock-nvml, named by MODELDOCK_NVML, and the program of
# allocate.c, named by ALLOCATE.
set -uo pipefail
cd "$(dirname "$0")/../.."

out=${1:-$(mktemp -d)}
mkdir -p "$out"
failures=0
holder=
agent=

pass() { echo "PASS $*"; }
fail() { echo "FAIL $*"; failures=$((failures + 1)); }
finish() {
	[ -n "$holder" ] && kill "$holder" 2>/dev/null
	[ -n "$agent" ] && kill "$agent" 2>/dev/null
	wait 2>/dev/null
}
trap finish EXIT
give_up() { fail "$*"; echo "evidence: $out"; exit 1; }

# 1. Programs.
command -v nvidia-smi >"$out/nvidia-smi.path" || give_up "nvidia-smi is not on PATH: is this a machine with NVIDIA cards?"
command -v python3 >/dev/null || give_up "python3 is not on PATH"
nvml=${MODELDOCK_NVML:-$out/modeldock-nvml}
if [ ! -x "$nvml" ]; then
	CGO_ENABLED=1 go build -o "$nvml" ./cmd/modeldock-nvml 2>"$out/build-nvml.log" || give_up "modeldock-nvml does not build: $(tail -n 3 "$out/build-nvml.log")"
fi
allocate=${ALLOCATE:-$out/allocate}
if [ ! -x "$allocate" ]; then
	cc -O1 -o "$allocate" test/gpu/allocate.c -ldl 2>"$out/build-allocate.log" || give_up "allocate.c does not build: $(tail -n 3 "$out/build-allocate.log")"
fi
pass "the programs are there"

# 2. Inventory, beside nvidia-smi's.
timeout 60 "$nvml" >"$out/cards.json" 2>"$out/nvml.err" || give_up "modeldock-nvml: $(cat "$out/nvml.err")"
timeout 60 nvidia-smi --query-gpu=uuid,index,name,memory.total,memory.used,mig.mode.current --format=csv,noheader,nounits >"$out/smi.csv" || give_up "nvidia-smi does not answer"
cat "$out/smi.csv"
if python3 - "$out/cards.json" "$out/smi.csv" <<'PY'
import csv, json, sys
ours = {c["uuid"]: c for c in json.load(open(sys.argv[1]))}
theirs = {r[0].strip(): [f.strip() for f in r] for r in csv.reader(open(sys.argv[2]))}
wrong = []
if not theirs:
    wrong.append("nvidia-smi lists no card")
if set(ours) != set(theirs):
    wrong.append(f"cards {sorted(ours)} against {sorted(theirs)}")
for uuid in set(ours) & set(theirs):
    c, (_, index, name, total, _, mig) = ours[uuid], theirs[uuid]
    if c["index"] != int(index) or c["name"] != name:
        wrong.append(f"{uuid}: {c['index']} {c['name']} against {index} {name}")
    # nvidia-smi and the library round alike or differ by one.
    if abs(c["totalMiB"] - int(total)) > 1:
        wrong.append(f"{uuid}: {c['totalMiB']} MiB against {total}")
    # A card that MIG splits is listed, and is not for whole models.
    if c["healthy"] == (mig == "Enabled"):
        wrong.append(f"{uuid}: healthy is {c['healthy']} ({c.get('reason', '')}) with MIG {mig}")
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
PY
then pass "inventory: the cards, models, sizes and health are nvidia-smi's"; else fail "inventory differs from nvidia-smi's"; fi

# Everything else needs one card that is healthy.
read -r uuid free < <(python3 - "$out/cards.json" <<'PY'
import json, sys
well = [c for c in json.load(open(sys.argv[1])) if c["healthy"]]
c = max(well, key=lambda c: c["totalMiB"] - c["usedMiB"], default=None)
print(*(c["uuid"], c["totalMiB"] - c["usedMiB"]) if c else ("none", 0))
PY
)
[ "${uuid:-none}" != none ] || give_up "no healthy card to go on with"
take=$((free / 4))
[ "$take" -ge 64 ] || give_up "card $uuid has only $free MiB free: too little to see a difference"
[ "$take" -le 8192 ] || take=8192

# used FILE: what the last complete line of a followed reader says of the card.
used() {
	python3 - "$1" "$uuid" <<'PY'
import json, sys
lines = open(sys.argv[1]).read().split("\n")[:-1]
print(next(c["usedMiB"] for c in json.loads(lines[-1]) if c["uuid"] == sys.argv[2]) if lines else -1)
PY
}

# until CONDITION: tries for 30 s, twice a second.
until_true() {
	for _ in $(seq 60); do
		"$@" && return 0
		sleep 0.5
	done
	return 1
}

# 3. A process takes memory, and gives it back.
mkfifo "$out/life" "$out/hold" || give_up "no named pipes in $out"
"$nvml" --every 500ms <"$out/life" >"$out/follow.jsonl" 2>"$out/follow.err" &
agent=$!
exec 8>"$out/life"
has_line() { [ "$(wc -l <"$out/follow.jsonl")" -ge 1 ]; }
until_true has_line || give_up "modeldock-nvml --every says nothing: $(cat "$out/follow.err")"
before=$(used "$out/follow.jsonl")
"$allocate" "$uuid" "$take" <"$out/hold" >"$out/allocate.out" 2>"$out/allocate.err" &
holder=$!
exec 9>"$out/hold"
holds() { grep -q '^holding' "$out/allocate.out"; }
until_true holds || give_up "no memory could be taken: $(cat "$out/allocate.err")"
rose() { now=$(used "$out/follow.jsonl"); [ "$now" -ge $((before + take)) ]; }
# A CUDA context needs some memory of its own, less than 2 GiB on every card.
if until_true rose && [ "$now" -le $((before + take + 2048)) ]; then
	pass "memory: $take MiB taken on $uuid are seen ($before -> $now MiB)"
else
	fail "memory: $take MiB were taken on $uuid, and $before MiB became ${now:-nothing}"
fi
nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv,noheader,nounits >"$out/apps.csv" 2>&1
exec 9>&-
wait "$holder" 2>/dev/null
holder=
fell() { now=$(used "$out/follow.jsonl"); [ "$now" -lt $((before + take / 2)) ]; }
if until_true fell; then pass "memory: it is seen to come back ($now MiB)"; else fail "memory: it was given back, and ${now:-nothing} MiB are still seen"; fi

# 4. Health goes on to be read, and the reader ends with who started it.
if python3 - "$out/follow.jsonl" "$uuid" <<'PY'
import json, sys
lines = open(sys.argv[1]).read().split("\n")[:-1]
sick = [l for l in lines if not next(c["healthy"] for c in json.loads(l) if c["uuid"] == sys.argv[2])]
print(f"{len(lines)} readings, {len(sick)} of them sick")
sys.exit(1 if sick or len(lines) < 3 else 0)
PY
then pass "health: $uuid was healthy in every reading"; else fail "health: see follow.jsonl"; fi
exec 8>&-
gone() { ! kill -0 "$agent" 2>/dev/null; }
if until_true gone; then pass "the reader ended with its input"; agent=; else fail "the reader goes on without its input"; fi

echo "evidence: $out"
[ "$failures" -eq 0 ]
