"""The Kubernetes API as this room needs it: JSON requests, one watch, and one websocket per process in a pod.

The official client (its asyncio half) brings what differs between clusters: kubeconfig and in-cluster configuration, TLS,
tokens and their renewal. Objects stay plain JSON: the generated models cost milliseconds each and know only one version.

A request that may be repeated is, with growing pauses, while the server is away, overloaded or restarting; so a restart of the
API server costs time and no sandbox.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config as loader
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.config_exception import ConfigException

from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.errors import ApiError
from agentgym.sandbox.protocol import BackendUnavailable, TransportError

Thing = dict[str, Any]
Query = Sequence[tuple[str, str]]

_PASSING = {408, 429, 500, 502, 503, 504}
_REQUEST_S = 30.0
_HANDSHAKE = aiohttp.ClientWSTimeout(None, 2.0)  # pyright: ignore[reportCallIssue]


class Api:
    def __init__(self, client: ApiClient, patience_s: float) -> None:
        self._client = client
        self._patience_s = patience_s

    @property
    def address(self) -> str:
        return self._client.configuration.host

    @classmethod
    async def connect(cls, config: KubernetesConfig) -> Api:
        """BackendUnavailable, with what to do, where no cluster answers."""
        settings = Configuration()
        settings.connection_pool_maxsize = 0  # every open sandbox holds a connection
        try:
            await _configure(settings, config)
        except (ConfigException, OSError) as error:
            raise BackendUnavailable(
                f"no cluster is configured: {error}",
                hint="set KUBECONFIG, or start one for development: k8s/dev/up",
            ) from error
        api = cls(ApiClient(settings), config.api_timeout_s)
        try:
            await api.request("GET", "/version", patience_s=0)
        except (ApiError, TransportError) as error:
            await api.close()
            raise BackendUnavailable(
                f"the cluster at {api.address} does not answer: {error}",
                hint="check the kubeconfig and its credentials: kubectl get --raw /version",
            ) from error
        return api

    async def request(
        self, method: str, path: str, body: Thing | None = None, query: Query = (), *, patience_s: float | None = None
    ) -> Thing:
        """The answer's JSON. ApiError where the server refuses; TransportError where none answers in time.

        Repeated on passing trouble, also POST: names are ours and fixed, so a second attempt is told AlreadyExists at worst.
        """
        deadline = time.monotonic() + (self._patience_s if patience_s is None else patience_s)
        pause = 0.1
        while True:
            try:
                return await self._once(method, path, body, query)
            except (ApiError, TransportError) as error:
                passing = isinstance(error, TransportError) or error.status in _PASSING
                if not passing or time.monotonic() + pause > deadline:
                    raise
            await asyncio.sleep(pause * random.uniform(0.7, 1.3))
            pause = min(pause * 1.7, 3.0)

    async def _once(self, method: str, path: str, body: Thing | None, query: Query) -> Thing:
        url, headers = await self._prepared(method, path, query)
        data = None if body is None else json.dumps(body)
        if data is not None:
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            async with self._session.request(
                method, url, data=data, headers=headers, timeout=aiohttp.ClientTimeout(total=_REQUEST_S)
            ) as response:
                text = await response.text()
                if response.status >= 400:
                    raise _refusal(response.status, text)
                return json.loads(text) if text else {}
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(f"the API server at {self.address}: {error or type(error).__name__}") from error

    async def watch(self, path: str, query: Query, *, seconds: int) -> AsyncIterator[tuple[str, Thing]]:
        """Events (type, object) until the server ends the stream; ApiError 410 where the version asked for is too old."""
        url, headers = await self._prepared("GET", path, [*query, ("watch", "1"), ("timeoutSeconds", str(seconds))])
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_REQUEST_S, sock_read=seconds + _REQUEST_S)
        try:
            async with self._session.get(url, headers=headers, timeout=limits) as response:
                if response.status >= 400:
                    raise _refusal(response.status, await response.text())
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise _refusal(event["object"].get("code", 500), json.dumps(event["object"]))
                    yield event["type"], event["object"]
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(f"the watch at {self.address}: {error or type(error).__name__}") from error

    async def upgrade(self, path: str, query: Query) -> aiohttp.ClientWebSocketResponse:
        """A websocket that speaks v4.channel.k8s.io. ApiError where the server answers with anything else."""
        url, headers = await self._prepared("GET", path, query)
        try:
            async with asyncio.timeout(_REQUEST_S):
                return await self._session.ws_connect(
                    url, headers=headers, protocols=("v4.channel.k8s.io",), max_msg_size=0, timeout=_HANDSHAKE
                )
        except aiohttp.WSServerHandshakeError as error:
            raise ApiError(error.status, "", f"no websocket: {error.message}") from error
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError too
            raise TransportError(f"the API server at {self.address}: {error or type(error).__name__}") from error

    async def _prepared(self, method: str, path: str, query: Query) -> tuple[str, dict[str, str]]:
        _, url, headers, _, _ = await self._client.param_serialize(method, path, auth_settings=["BearerToken"])
        return f"{url}?{urlencode(query)}" if query else url, headers

    @property
    def _session(self) -> aiohttp.ClientSession:
        rest = self._client.rest_client
        if rest.pool_manager is None:
            rest.pool_manager = rest._create_pool_manager()
        return rest.pool_manager

    async def close(self) -> None:
        await self._client.close()


async def _configure(settings: Configuration, config: KubernetesConfig) -> None:
    if config.kubeconfig is None:
        try:
            loader.load_incluster_config(client_configuration=settings)
            return
        except ConfigException:
            pass  # not in a cluster: a kubeconfig it is
    file = str(config.kubeconfig) if config.kubeconfig else None
    await loader.load_kube_config(config_file=file, context=config.context, client_configuration=settings)


def _refusal(status: int, text: str) -> ApiError:
    try:
        answer = json.loads(text)
        return ApiError(status, str(answer.get("reason") or ""), str(answer.get("message") or ""))
    except (ValueError, AttributeError):
        return ApiError(status, "", text.strip()[:500])
