"""The `kubernetes` backend: a pod per sandbox, on any cluster from 1.20 on, with no right beyond its namespace."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from dataclasses import replace

from agentgym.sandbox import labels
from agentgym.sandbox.kubernetes import images, probe, reaper, snapshot, template, verdict
from agentgym.sandbox.kubernetes.api import Api
from agentgym.sandbox.kubernetes.cluster import Cluster
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.errors import ApiError, NetworkLeak
from agentgym.sandbox.kubernetes.ownership import Ownership
from agentgym.sandbox.kubernetes.sandbox import KubernetesSandbox
from agentgym.sandbox.protocol import (
    BackendUnavailable,
    Image,
    ImageSpec,
    Limits,
    SandboxError,
    SandboxGone,
    StartError,
    TransportError,
)

logger = logging.getLogger(__name__)


class KubernetesBackend:
    """See `agentgym.sandbox.protocol.SandboxBackend`."""

    name = "kubernetes"

    def __init__(self, api: Api, config: KubernetesConfig, owner: labels.Owner) -> None:
        instance = secrets.token_hex(6)
        self._api = api
        self._config = config
        self._owner = owner
        self._instance = instance
        self._cluster = Cluster(api, config, owner, instance)
        self._ownership = Ownership(api, config.namespace, instance, owner, config.lease_s)
        self._live: dict[str, KubernetesSandbox] = {}
        self._starting = asyncio.Semaphore(config.starts_in_flight)
        self._prepared: asyncio.Task[None] | None = None
        self._first: Image | None = None

    @classmethod
    async def open(cls, owner: str | None = None, config: KubernetesConfig | None = None) -> KubernetesBackend:
        """BackendUnavailable, with what to do, where no cluster answers or its namespace cannot be used."""
        config = config or KubernetesConfig.load()
        api = await Api.connect(config)
        try:
            await api.request("GET", f"/api/v1/namespaces/{config.namespace}/pods", query=[("limit", "1")])
        except (ApiError, TransportError) as error:
            await api.close()
            raise BackendUnavailable(
                f"pods in namespace {config.namespace} of {api.address} may not be listed: {error}",
                hint="apply k8s/sandboxes to the cluster and use an account bound to its Role",
            ) from error
        return cls(api, config, labels.Owner.current(owner or ""))

    async def ensure_image(self, spec: ImageSpec) -> Image:
        return await images.resolve(spec, self._config)

    async def start(self, image: Image, limits: Limits = Limits()) -> KubernetesSandbox:
        stored = snapshot.Stored.load(image.ref) if image.ref.startswith(snapshot.SCHEME) else None
        running = replace(image, ref=stored.image) if stored else image
        await self._prepare(running)
        sandbox = await self._start(running, limits)
        if stored is None:
            return sandbox
        try:
            await sandbox.lay(stored)
        except BaseException:
            await sandbox.close()
            raise
        sandbox.image = image
        return sandbox

    async def _start(self, image: Image, limits: Limits, *, kind: str = "sandbox") -> KubernetesSandbox:
        name = f"agentgym-{secrets.token_hex(8)}"
        manifest = template.pod(
            name,
            image,
            limits,
            self._config,
            instance=self._instance,
            lease=labels.lease("sandbox", self._owner, limits.lifetime_s + self._config.start_timeout_s),
            owner=self._ownership.reference,
            kind=kind,
        )
        sandbox = KubernetesSandbox(self._cluster, name, image, limits, forget=lambda: self._live.pop(name, None))
        self._live[name] = sandbox
        try:
            async with self._starting:
                await self._cluster.create(manifest)
                pod = await self._cluster.await_running(name)
                await sandbox.open()
        except BaseException as error:
            with contextlib.suppress(SandboxError):
                await sandbox.close()
            if isinstance(error, SandboxGone) or (
                isinstance(error, TransportError) and not isinstance(error, StartError)
            ):
                raise StartError(f"sandbox {name} from image {image.ref} did not start: {error}") from error
            raise
        sandbox.image = replace(image, digest=verdict.image_digest(pod) or image.digest)
        return sandbox

    async def _prepare(self, image: Image) -> None:
        """Once, before the first sandbox: a Lease for this owner, and proof that the network is closed."""
        if self._prepared is None or (self._prepared.done() and self._prepared.exception() is not None):
            self._prepared = asyncio.create_task(self._open_up(image))
        await asyncio.shield(self._prepared)

    async def _open_up(self, image: Image) -> None:
        if self._ownership.reference is None:
            await self._ownership.open()
        try:
            await self._prove(image)
        except NetworkLeak as error:
            if not self._config.allow_network_leak:
                raise
            logger.warning("allow_network_leak is set, so untrusted code runs although: %s", error)

    async def _prove(self, image: Image) -> None:
        control, subject = await asyncio.gather(
            self._start(image, probe.OPEN, kind="probe"), self._start(image, probe.LIMITS, kind="probe")
        )
        try:
            await probe.prove(control, subject, nodes=self._cluster.nodes(control.id, subject.id))
        finally:
            await asyncio.gather(control.close(), subject.close())

    async def reap(self, *, everything: bool = False) -> int:
        if everything:
            await asyncio.gather(*(sandbox.close() for sandbox in list(self._live.values())), return_exceptions=True)
        return await reaper.reap(self._api, self._config.namespace, everything=everything)

    async def close(self) -> None:
        """Closes every sandbox this backend started."""
        if self._prepared is not None:
            self._prepared.cancel()
            await asyncio.gather(self._prepared, return_exceptions=True)
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._live.values())), return_exceptions=True)
        with contextlib.suppress(SandboxError):
            await self._ownership.close()
        await self._cluster.close()
        await self._api.close()
