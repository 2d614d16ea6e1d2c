#!/usr/bin/env bash
# Train on all hosts of a Cloud TPU VM slice; JAX finds them by itself.
#
#   launch/cloud-tpu.sh NAME ZONE EXPERIMENT.py [flags of dicejax train]
#
# Run it again after the slice was preempted and recreated: the run resumes from its
# last checkpoint, so its folder must outlive the slice (--out gs://BUCKET/...).
set -euo pipefail
if [ $# -lt 3 ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
name=$1 zone=$2
shift 2
words=$(printf '%q ' "$@")
gcloud compute tpus tpu-vm scp --recurse --zone "$zone" --worker all . "$name:dicejax"
gcloud compute tpus tpu-vm ssh "$name" --zone "$zone" --worker all --command "
  cd dicejax &&
  pip install --quiet -e . 'jax[tpu]' &&
  exec ~/.local/bin/dicejax train $words --processes.find"
