#!/usr/bin/env bash
# Train on all hosts of a Cloud TPU VM slice; JAX finds them by itself.
#
#   launch/cloud-tpu.sh NAME ZONE EXPERIMENT.py [flags of dicejax train]
#
# Images of TPU VMs have Python 3.10, so uv brings a newer one. Create a slice once:
#
#   gcloud compute tpus tpu-vm create NAME --zone ZONE --spot \
#     --accelerator-type v5litepod-16 --version v2-alpha-tpuv5-lite
#
# Run it again after the slice was preempted and recreated: the run resumes from its
# last checkpoint, so its folder must outlive the slice (--out gs://BUCKET/...).
set -euo pipefail
if [ $# -lt 3 ]; then
  sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
name=$1 zone=$2
shift 2
words=$(printf '%q ' "$@")
gcloud compute tpus tpu-vm scp --recurse --zone "$zone" --worker all . "$name:dicejax"
gcloud compute tpus tpu-vm ssh "$name" --zone "$zone" --worker all --command "
  cd dicejax &&
  { command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh; } &&
  export PATH=\$HOME/.local/bin:\$PATH &&
  uv venv --quiet --allow-existing --python 3.12 ~/venv &&
  uv pip install --quiet --python ~/venv/bin/python -e '.[tpu]' &&
  exec ~/venv/bin/dicejax train $words --processes.find"
