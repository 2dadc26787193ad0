#!/bin/bash
set -euo pipefail
cd /testbed
sed -i 's/(?:(\\d+)h)(?:/(?:(\\d+)h)?(?:/' duration.mjs
