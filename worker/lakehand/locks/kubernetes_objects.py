"""One Lease or ConfigMap of the Kubernetes API, read and conditionally written.

The official client finds the credentials and keeps them fresh. Its pool repeats a PUT that got no
answer, which a conditional write must not be, so ``open_api_client`` switches repeats off and
every request has a timeout. Writes are patches that carry the ``resourceVersion`` they stand on:
the server refuses them with 409 when the object changed meanwhile, and fields of others stay.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any

from lakehand.errors import Corrupt, Invalid, LakehandError, NotFound, Unavailable
from lakehand.ports import PutOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubernetes.client import ApiClient

_MESSAGE_LIMIT = 600
_LONGEST_REQUEST_S = 5.0
_MANAGER = "lakehand"
"""Who we are in the managedFields of what we write."""
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


@unique
class ObjectKind(Enum):
    """The two kinds of objects that can carry a lock."""

    LEASE = "leases"
    CONFIG_MAP = "configmaps"


@dataclass(frozen=True, slots=True)
class KubernetesObject:
    """An object as the server has it."""

    uid: str
    version: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a conditional write, and the object if it was written."""

    outcome: PutOutcome
    now: KubernetesObject | None = None


def checked_namespace(name: str) -> str:
    """Return ``name`` if it can be a namespace's: a DNS-1123 label."""
    if not re.fullmatch(_LABEL, name):
        raise Invalid(
            f"{name!r} cannot be a namespace: up to 63 of a-z, 0-9 and '-', "
            "the first and the last a letter or digit"
        )
    return name


def checked_name(name: str) -> str:
    """Return ``name`` if it can be an object's: DNS-1123 labels with dots between them."""
    if len(name) > 253 or not re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", name):
        raise Invalid(
            f"{name!r} cannot be the name of a Lease or ConfigMap: up to 253 of a-z, 0-9, '-' "
            "and '.', each part's first and last a letter or digit"
        )
    return name


def open_api_client(*, kubeconfig: str | None = None, context: str | None = None) -> ApiClient:
    """Return a client for the API server of the pod that this runs in, else of a kubeconfig.

    A ``kubeconfig`` that is named is used wherever this runs.
    """
    import yaml
    from kubernetes import client, config

    loaders: Any = config
    configuration = client.Configuration()
    try:
        if kubeconfig is not None or context is not None:
            loaders.load_kube_config(kubeconfig, context, client_configuration=configuration)
        else:
            try:
                loaders.load_incluster_config(client_configuration=configuration)
            except loaders.ConfigException:
                loaders.load_kube_config(client_configuration=configuration)
    except (loaders.ConfigException, OSError) as error:
        raise Invalid(f"no way to the Kubernetes API: {error}") from error
    except yaml.YAMLError as error:  # its text may hold a piece of the file, so a secret
        raise Invalid("no way to the Kubernetes API: the kubeconfig is not YAML") from error
    configuration.retries = False
    return client.ApiClient(configuration)


class ObjectRequests:
    """The requests that a lock makes for its object."""

    def __init__(
        self,
        client: ApiClient,
        kind: ObjectKind,
        *,
        namespace: str,
        name: str,
        longest_s: float,
    ) -> None:
        """Take a client from ``open_api_client``: one that repeats requests is refused.

        No request may last longer than ``longest_s``, nor than five seconds.
        """
        if client.configuration.retries is not False:
            raise Invalid("the Kubernetes client must not repeat requests: use open_api_client")
        self._client = client
        self._kind = kind
        self._namespace = checked_namespace(namespace)
        self._name = checked_name(name)
        limit_s = min(longest_s, _LONGEST_REQUEST_S)
        self._limits = (limit_s, limit_s)  # to connect and to read: older clients ignore a float

    @property
    def where(self) -> str:
        """The object's place, for messages."""
        return f"{self._kind.value} {self._namespace}/{self._name}"

    def read(self) -> KubernetesObject | None:
        """Return the object, or None if there is none."""
        api = self._api()
        match self._kind:
            case ObjectKind.LEASE:
                call = api.read_namespaced_lease
            case ObjectKind.CONFIG_MAP:
                call = api.read_namespaced_config_map
        try:
            return self._asked("get", call, self._name, self._namespace)
        except NotFound:
            return None
        except _MaybeDone as error:
            raise Unavailable(str(error)) from error

    def create(self, content: Mapping[str, Any]) -> Written:
        """Create the object with ``content`` unless there is one."""
        api = self._api()
        match self._kind:
            case ObjectKind.LEASE:
                call = api.create_namespaced_lease
            case ObjectKind.CONFIG_MAP:
                call = api.create_namespaced_config_map
        body = {**content, "metadata": {**content.get("metadata", {}), "name": self._name}}
        return self._written("create", call, self._namespace, body)

    def patch(self, content: Mapping[str, Any], *, version: str) -> Written:
        """Merge ``content`` into the object if its version is still ``version``."""
        api = self._api()
        match self._kind:
            case ObjectKind.LEASE:
                call = api.patch_namespaced_lease
            case ObjectKind.CONFIG_MAP:
                call = api.patch_namespaced_config_map
        metadata = {**content.get("metadata", {}), "resourceVersion": version}
        body = {**content, "metadata": metadata}
        try:
            return self._written("patch", call, self._name, self._namespace, body)
        except NotFound:  # deleted meanwhile
            return Written(PutOutcome.EXISTS)

    def _api(self) -> Any:  # noqa: ANN401 - two generated classes without a common type
        from kubernetes import client

        match self._kind:
            case ObjectKind.LEASE:
                return client.CoordinationV1Api(self._client)
            case ObjectKind.CONFIG_MAP:
                return client.CoreV1Api(self._client)

    def _written(self, verb: str, call: Callable[..., Any], *arguments: object) -> Written:
        write = functools.partial(call, field_manager=_MANAGER)
        try:
            return Written(PutOutcome.WRITTEN, self._asked(verb, write, *arguments))
        except _ConditionFailed:
            return Written(PutOutcome.EXISTS)
        except (_MaybeDone, Corrupt):
            return Written(PutOutcome.UNKNOWN)

    def _asked(self, verb: str, call: Callable[..., Any], *arguments: object) -> KubernetesObject:
        """Send a request. Raises what its failure means to the caller.

        A server that is starting refuses everybody, because it has not read the roles yet. What
        it refused it did not do: so it is asked again once it says that it is ready.
        """
        try:
            return self._sent(verb, call, *arguments)
        except _Refused as refused:
            if not self._is_server_ready():
                raise Unavailable(f"{refused} (the server is not ready yet)") from refused
        return self._sent(verb, call, *arguments)

    def _is_server_ready(self) -> bool:
        """Ask ``/readyz``, which every user may read once the roles are known."""
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        client: Any = self._client
        settings = client.configuration.auth_settings().values()
        headers = {each["key"]: each["value"] for each in settings if each["in"] == "header"}
        url = f"{client.configuration.host}/readyz"
        limits = Timeout(connect=self._limits[0], read=self._limits[1])
        try:
            answer = client.rest_client.pool_manager.request(
                "GET", url, headers=headers, timeout=limits
            )
        except HTTPError:
            return False
        return answer.status in (200, 401, 404)

    def _sent(self, verb: str, call: Callable[..., Any], *arguments: object) -> KubernetesObject:
        from kubernetes.client import ApiException
        from kubernetes.config import ConfigException
        from urllib3.exceptions import HTTPError

        what = f"{verb} {self.where}"
        try:
            reply = call(*arguments, _preload_content=False, _request_timeout=self._limits)
            raw = reply.data
        except ApiException as error:
            if not error.status:  # how the client says that TLS failed
                raise _no_answer(what, error.__context__ or error) from error
            raise _refusal(what, int(error.status), error.body) from error
        except HTTPError as error:
            raise _no_answer(what, error) from error
        except ConfigException as error:  # a rotated token that cannot be read: nothing was sent
            raise Unavailable(f"{what}: {error}") from error
        return _parsed(raw, where=self.where)


class _MaybeDone(LakehandError):
    """The request may or may not have been carried out."""


class _Refused(Invalid):
    """We may not, or the server does not know yet that we may."""


class _ConditionFailed(LakehandError):
    """The object is not what the write stood on."""


def _refusal(what: str, status: int, body: object) -> LakehandError:
    problem = f"{what}: the Kubernetes API answered {status}: {_message(body)}"
    match status:
        case 401 | 403:
            return _Refused(f"{problem} (what a lock needs: docs/locks-kubernetes.md)")
        case 404:
            return NotFound(problem)
        case 409:
            return _ConditionFailed(problem)
        case 429:
            return Unavailable(problem)
        case _ if 400 <= status < 500 and status != 408:
            return Invalid(problem)
        case _:
            return _MaybeDone(problem)


def _message(body: object) -> str:
    """Return what the server's Status object says; it names users and rights, no secrets."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
    try:
        said = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        return "no reason given"
    return str(said)[:_MESSAGE_LIMIT]


def _no_answer(what: str, error: BaseException) -> LakehandError:
    """Tell a request that surely was not sent from one that may have arrived."""
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, SSLError

    match error:
        case SSLError() if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return Invalid(f"{what}: the certificate of the Kubernetes API is not trusted")
        case NewConnectionError() | ConnectTimeoutError():
            return Unavailable(f"{what}: no connection to the Kubernetes API")
        case _:
            return _MaybeDone(f"{what}: no answer ({type(error).__name__})")


def _parsed(raw: bytes, *, where: str) -> KubernetesObject:
    try:
        document = json.loads(raw)
        metadata = document["metadata"]
        return KubernetesObject(str(metadata["uid"]), str(metadata["resourceVersion"]), document)
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt("the answer is no Kubernetes object", where=where) from error
