# What the scripts of this folder share: where things lie, how progress is told. Sourced, never run.
set -euo pipefail
BASE=${AGENTGYM_K8S_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/agentgym/k8s}
BIN=$BASE/bin         # Kubernetes' programs, kept
RUN=$BASE/run         # the state of the cluster: certificates, etcd's data, process ids
PKI=$RUN/pki
LOG=$RUN/log
KUBECONFIGS=$RUN/kubeconfig
CONFIG=$BASE/kubernetes.toml   # what agentgym's backend reads to find the cluster (AGENTGYM_KUBERNETES)
NODE=agentgym-dev
PAUSE=agentgym-pause:1
BRIDGE=agymk8s0       # the pods' bridge
NODE_LINK=agymk8s1    # an empty bridge that holds the node's address, so that none of the machine's own matters
NODE_IP=10.240.0.1
POD_CIDR=10.244.0.0/24
PROGRAMS="kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl"

say() { echo "k8s: $*" >&2; }
die() { echo "k8s: $1" >&2; [ -z "${2:-}" ] || echo "  → $2" >&2; exit 3; }
running() { # by its process id, and by what it was started with: an id alone is reused
  [ -f "$RUN/$1.pid" ] && grep -qsF "$RUN/" "/proc/$(cat "$RUN/$1.pid")/cmdline"
}
admin() { "$BIN/kubectl" --kubeconfig "$KUBECONFIGS/admin" --request-timeout=20s "$@"; }
answers() {
  [ -x "$BIN/kubectl" ] && [ -f "$KUBECONFIGS/admin" ] && running kubelet && running enforce && admin get --raw=/readyz >/dev/null 2>&1
}
