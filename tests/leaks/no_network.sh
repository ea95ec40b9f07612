#!/usr/bin/env bash
# Runs the built-in job under strace and lists every network address outside loopback that a process of it names.
# Usage: tests/leaks/no_network.sh [PYTHON] [DIALOGUES]. Exit code 0: none; 1: some, listed; 77: strace cannot run here.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
python=${1:-$repository/.venv/bin/python}
dialogues=${2:-60}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
strace -f --seccomp-bpf -qq -e trace=network -o "$folder/probe" true 2>/dev/null || { echo "strace cannot run here"; exit 77; }

cd "$folder"
export PYTHONPATH="$repository" PREFECT_HOME="$folder/prefect" RETICENT__TRAIN__EPOCHS=1
export PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS=200  # everything is slower under strace
unset PREFECT_API_URL PREFECT_API_KEY PREFECT_SERVER_DATABASE_CONNECTION_URL
unset DO_NOT_TRACK PREFECT_SERVER_ANALYTICS_ENABLED HF_HUB_OFFLINE HF_HUB_DISABLE_TELEMETRY  # as on a user's machine
"$python" -m flows.cli init job --dialogues "$dialogues" >/dev/null
# presidio looks for the public suffix list unless kept from it
export RETICENT__REDACT__POLICIES='["customersim", "high_entity", "presidio"]'
strace -f --seccomp-bpf -qq -e trace=network -o "$folder/trace" "$python" -m flows.cli run job/reticent.toml

# Addresses in connect, sendto, sendmsg and bind, of IPv4 and IPv6; name servers and proxies are addresses as well.
named=$(grep -oE 'inet_addr\("[^"]+"\)|inet_pton\(AF_INET6, "[^"]+"' "$folder/trace" | grep -oE '"[^"]+"' | tr -d '"')
echo "$(wc -l <"$folder/trace") network calls, $(wc -l <<<"$named") with an address"
sort <<<"$named" | uniq -c
outside=$(grep -E 'sin6?_addr|inet_pton' "$folder/trace" | grep -vE '"127\.[0-9.]+"|"::1"' || true)
grep -qE '"127\.' "$folder/trace" || { echo "the trace shows not even loopback: it is not to be trusted"; exit 1; }
if [ -n "$outside" ]; then
    echo "outside loopback:"
    echo "$outside"
    exit 1
fi
echo "no connection outside loopback"
