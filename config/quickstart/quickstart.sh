#!/usr/bin/env bash
# Creates a local cluster with eight simulated GPUs, a queue, a DCGM exporter and gpuscaler. config/guides/quickstart.md describes it.
#
# QUICKSTART_CLUSTER=kind       the kind cluster gpuscaler-quickstart, which the script creates if it does not exist (the default)
# QUICKSTART_CLUSTER=minikube   the minikube cluster gpuscaler-quickstart, which the script creates if it does not exist
# QUICKSTART_CLUSTER=existing   the cluster of the current kubeconfig. The script creates no cluster and builds no image.
#                               QUICKSTART_NODE is the node to which the script adds the simulated GPUs.
#                               QUICKSTART_IMAGE is the REPOSITORY:TAG of an image that the cluster can pull.
set -euo pipefail
cd "$(dirname "$0")/../.."
cluster=${QUICKSTART_CLUSTER:-kind}
image=${QUICKSTART_IMAGE:-gpuscaler:quickstart}
name=gpuscaler-quickstart

fail() { echo "quickstart: $*" >&2; exit 1; }
step() { echo "==> $*"; }
need() { for program in "$@"; do command -v "$program" >/dev/null || fail "$program is not installed"; done; }

# build_image builds a Linux image that contains only the static binary.
build_image() {
  step "build the image $image"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  GOOS=linux CGO_ENABLED=0 go build -ldflags "-s -w" -o "$work/gpuscaler" ./cmd/gpuscaler
  printf 'FROM scratch\nCOPY gpuscaler /gpuscaler\nUSER 65532:65532\nENTRYPOINT ["/gpuscaler"]\n' >"$work/Dockerfile"
  docker build --quiet --tag "$image" "$work"
}

need kubectl helm
case $cluster in
kind)
  need kind docker go
  build_image
  step "create the kind cluster $name"
  kind get clusters 2>/dev/null | grep -x "$name" >/dev/null || kind create cluster --name "$name" --wait 2m
  kubectl config use-context "kind-$name" >/dev/null
  kind load docker-image "$image" --name "$name"
  remove="kind delete cluster --name $name"
  ;;
minikube)
  need minikube docker go
  build_image
  step "create the minikube cluster $name"
  minikube status --profile "$name" >/dev/null 2>&1 || minikube start --profile "$name"
  kubectl config use-context "$name" >/dev/null
  minikube image load "$image" --profile "$name"
  remove="minikube delete --profile $name"
  ;;
existing)
  [ -n "${QUICKSTART_NODE:-}" ] || fail "set QUICKSTART_NODE to the node that gets the simulated GPUs"
  [ -n "${QUICKSTART_IMAGE:-}" ] || fail "set QUICKSTART_IMAGE to the REPOSITORY:TAG of an image that the cluster can pull"
  has=$(kubectl get node "$QUICKSTART_NODE" -o 'jsonpath={.status.capacity.nvidia\.com/gpu}')
  [ "${has:-0}" = 0 ] || fail "the node $QUICKSTART_NODE has GPUs: set QUICKSTART_NODE to another node"
  ! helm status gpuscaler --namespace gpuscaler-system >/dev/null 2>&1 || fail "the release gpuscaler is already installed in this cluster"
  for namespace in quickstart gpuscaler-system; do
    ! kubectl get namespace "$namespace" >/dev/null 2>&1 || fail "the namespace $namespace already exists in this cluster"
  done
  none='{"nvidia.com/gpu":null}'
  remove="helm uninstall gpuscaler --namespace gpuscaler-system
  kubectl delete namespace quickstart gpuscaler-system
  kubectl label node $QUICKSTART_NODE nvidia.com/gpu.present-
  kubectl patch node $QUICKSTART_NODE --subresource=status --type=merge -p '{\"status\":{\"capacity\":$none,\"allocatable\":$none}}'"
  trap 'printf "quickstart: failed. Delete what was created:\n  %s\n" "$remove" >&2' ERR
  ;;
*) fail "QUICKSTART_CLUSTER=$cluster: use kind, minikube or existing" ;;
esac

node=${QUICKSTART_NODE:-$(kubectl get nodes -o 'jsonpath={.items[0].metadata.name}')}
step "add eight simulated GPUs to the node $node"
gpus='{"nvidia.com/gpu":"8"}'
kubectl patch node "$node" --subresource=status --type=merge -p "{\"status\":{\"capacity\":$gpus,\"allocatable\":$gpus}}"
kubectl label node "$node" nvidia.com/gpu.present=true --overwrite

step "create the queue, the workers and the exporter"
kubectl apply -f config/quickstart/workload.yaml

step "install gpuscaler with its policy, and the HPA"
helm upgrade --install gpuscaler charts/gpuscaler --namespace gpuscaler-system --values config/quickstart/values.yaml \
  --set image.repository="${image%:*}" --set-string image.tag="${image##*:}" --set-file 'files.worker\.yaml=config/quickstart/policy.yaml' >/dev/null
kubectl apply -f config/quickstart/hpa.yaml
# In a second run, the image has the same tag but another content, so the pods must be restarted.
[ "$cluster" = existing ] || kubectl -n gpuscaler-system rollout restart deploy/gpuscaler

step "wait until all pods are ready"
kubectl -n quickstart rollout status deploy/redis --timeout=5m
kubectl -n quickstart rollout status deploy/worker --timeout=5m
kubectl -n quickstart rollout status daemonset/gpu-exporter --timeout=5m
kubectl -n gpuscaler-system rollout status deploy/gpuscaler --timeout=5m

cat <<END

The cluster is ready. Add 100 jobs to the queue:
  kubectl -n quickstart exec deploy/redis -- redis-cli eval 'for i = 1, 100 do redis.call("rpush", "jobs", i) end' 0

Then see why the target changes, and the replicas that the HPA sets:
  gpuscaler explain quickstart/worker
  kubectl -n quickstart get hpa worker

Delete everything:
  $remove
END
