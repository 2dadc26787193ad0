"""What answers a prompt: in-process torch, vLLM over HTTP, and scripts. One protocol, token ids in and out."""
