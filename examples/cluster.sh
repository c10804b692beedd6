#!/bin/bash
# Three nodes on one machine: network namespaces on a bridge, a gateway in each, and messages between them. Needs root and
# iproute2; takes everything away again when it ends.
#
#     sudo examples/cluster.sh            # dp from target/release, or from PATH
#     sudo examples/cluster.sh bash       # the same nodes, and a shell on node 1 to try things in
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
dp=${DP:-$here/target/release/dp}
[ -x "$dp" ] || dp=$(command -v dp) || {
    echo "cluster.sh: no dp; run \`make build\`, or say where it is: DP=.../dp" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || {
    echo "cluster.sh: network namespaces need root" >&2
    exit 1
}

work=$(mktemp -d)
name=dpc$$ # of namespaces, so that two clusters do not meet
jobs=()
cleanup() {
    [ ${#jobs[@]} -eq 0 ] || kill "${jobs[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    for n in switch 1 2 3; do ip netns del "$name-$n" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT

# on N COMMAND...: runs it on node N.
on() {
    local n=$1
    shift
    DP_NID=$n DP_RUNTIME_DIR=$work/node$n ip netns exec "$name-$n" "$@"
}

ip netns add "$name-switch"
ip -n "$name-switch" link add bridge type bridge forward_delay 0
ip -n "$name-switch" link set bridge up
# By this the nodes know each other; frames over UDP are authenticated with it.
"$dp" graph key "$work/dp-graph.key"
printf '[security]\nkey = "dp-graph.key"\n\n' >"$work/dp-graph.toml"
for n in 1 2 3; do
    ip netns add "$name-$n"
    ip -n "$name-$n" link set lo up
    ip -n "$name-$n" link add eth0 type veth peer name "port$n" netns "$name-switch"
    ip -n "$name-$n" link set eth0 address "02:00:00:00:00:0$n" up
    ip -n "$name-$n" addr add "10.99.0.$n/24" dev eth0
    ip -n "$name-switch" link set "port$n" master bridge up
    # Which node is where, and by which routes: UDP first, Ethernet if that fails.
    cat >>"$work/dp-graph.toml" <<NODE
[[node]]
nid = $n
name = "node$n"
routes = ["udp:10.99.0.$n:7411", "eth:eth0/02:00:00:00:00:0$n"]

NODE
done

for n in 1 2 3; do
    mkdir -m 700 "$work/node$n"
    # Not by `on`: the number would be that of a shell around it, and the gateway would outlive that.
    DP_NID=$n DP_RUNTIME_DIR=$work/node$n ip netns exec "$name-$n" "$dp" node --graph "$work/dp-graph.toml" &
    jobs+=($!)
done
for n in 1 2 3; do
    until [ -L "$work/node$n/gateway" ]; do sleep 0.05; done
done

if [ $# -gt 0 ]; then
    echo "node 1; for example: $dp recv 5000 --lines" >&2
    on 1 "$@"
    exit
fi

# Nodes 1 and 2 send ten lines each to endpoint 5000 of node 3.
on 3 "$dp" recv 5000 --lines --count 20 --timeout 20 >"$work/heard" &
receiver=$!
for n in 1 2; do
    for i in {1..10}; do echo "line $i of node $n"; done | on "$n" "$dp" send 3/5000 --lines
done
wait "$receiver"
cat "$work/heard"
echo
on 3 "$dp" ls
