"""How a task's image comes to a node. Nothing is built in a cluster.

A registry is configured: its images carry names that follow from the spec alone, so that whoever pushes (`agentgym images
push`) and whoever runs (a pod without any engine) agree. No registry, but an engine here: the node shares it, as on the
development cluster, so the image is built with it. Neither: somebody has loaded it on the nodes under that same name.
"""

from __future__ import annotations

import asyncio

from agentgym.sandbox import images
from agentgym.sandbox.bundle import portable_reference
from agentgym.sandbox.finish import FINISH_VERSION
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.protocol import BackendUnavailable, Image, ImageSpec


async def resolve(spec: ImageSpec, config: KubernetesConfig) -> Image:
    """The image a pod of this spec starts from. Whether the node can get it shows when it starts (ImageUnavailable)."""
    reference = portable_reference(spec, config.registry)
    if config.registry is None:
        try:
            client = await asyncio.to_thread(images.connect)
        except BackendUnavailable:
            pass
        else:
            try:
                built = await images.build(client, spec)
                repository, _, tag = reference.rpartition(":")
                await asyncio.to_thread(client.tag, built.ref, repository, tag)
            finally:
                client.close()
            return Image(spec, reference, built.digest, "kubernetes")
    return Image(spec, reference, f"{spec.digest}/{FINISH_VERSION}", "kubernetes")
