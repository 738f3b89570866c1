"""Reads all sources, from the caches as far as there are any. What cannot be read is said to be so.

A kind counts as absent only when its definition is gone, asked for by name: a list that says so alone
may come from a server that is being started (spec: companions §1.4).
"""

import base64
from collections.abc import Iterable
from typing import Final

import msgspec

from magicstick.api.kinds import KUBEAI_MODEL, MODEL_ACTIVATION
from magicstick.api.labels import CONTEXT_WINDOW, MAX_OUTPUT_TOKENS, MODEL
from magicstick.kube.cache import Caches
from magicstick.kube.client import Client
from magicstick.kube.errors import ApiError, NotFound
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import MetadataOnly, ObjectMeta, Resource
from magicstick.model_catalog.desired import (
    KeyReference,
    Keys,
    Listing,
    Sources,
    Unreadable,
    key_references,
    ready_replicas,
    runtime_ready,
    wanted,
)
from magicstick.model_catalog.settings import CatalogSettings
from magicstick.model_catalog.values import section
from magicstick.runtime.logs import Secret

SECRET: Final = Kind("", "v1", "Secret", "secrets")
MODELS_KEY: Final = "models.json"


class SecretView(msgspec.Struct, frozen=True, gc=False):
    """A Secret; `data` is base64."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None

    def __repr__(self) -> str:
        """Without the data."""
        return f"SecretView({self.metadata.key})"


class Observer:
    """See the module."""

    def __init__(self, caches: Caches, client: Client, settings: CatalogSettings) -> None:
        self._caches = caches
        self._client = client
        self._settings = settings
        namespace = settings.namespace
        caches.add(KUBEAI_MODEL, namespace=namespace)
        caches.add(MODEL_ACTIVATION, namespace=settings.appliance_namespace)
        caches.add(CONFIG_MAP, namespace=namespace, name=settings.external_models_configmap)

    async def sources(self) -> Sources:
        """All of them, as they are now."""
        namespace = self._settings.namespace
        models = await self._listing(KUBEAI_MODEL, namespace)
        activations = await self._listing(MODEL_ACTIVATION, self._settings.appliance_namespace)
        known = Sources(models, activations, self._external())
        return Sources(models, activations, known.external, await self._keys(key_references(known)))

    async def _listing(self, kind: Kind, namespace: str) -> Listing:
        informer = self._caches.informer(kind, namespace)
        if informer.state is InformerState.SYNCED:
            listed: tuple[Resource, ...] = informer.store.list()
            return listed
        if informer.state is InformerState.ABSENT:
            return await self._proven_absent(kind)
        return Unreadable(f"cannot be read ({informer.reason or 'not listed yet'})")

    async def _proven_absent(self, kind: Kind) -> Listing:
        definition = ObjectKey("", kind.crd_name)
        try:
            await self._client.get(CUSTOM_RESOURCE_DEFINITION, definition, view=MetadataOnly)
        except NotFound:
            return ()
        except ApiError as error:
            return Unreadable(f"whether the kind is there cannot be told ({type(error).__name__})")
        return Unreadable("the kind is defined and not served")

    def _external(self) -> str | Unreadable:
        namespace, name = self._settings.namespace, self._settings.external_models_configmap
        informer = self._caches.informer(CONFIG_MAP, namespace, name)
        if informer.state is not InformerState.SYNCED:
            return Unreadable(f"ConfigMap {name} cannot be read ({informer.reason or 'not listed yet'})")
        found: Resource | None = informer.store.get(ObjectKey(namespace, name))
        return "" if found is None else found.data.get(MODELS_KEY, "")

    # -- keys ------------------------------------------------------------------------------------------

    async def _keys(self, references: Iterable[KeyReference]) -> Keys:
        """Each Secret is read once, by its name: nothing else may be read (spec: companions §1.5)."""
        found: dict[KeyReference, Secret | Unreadable] = {}
        secrets: dict[str, SecretView | Unreadable] = {}
        for reference in sorted(references):
            if reference.secret not in secrets:
                secrets[reference.secret] = await self._secret(reference.secret)
            found[reference] = self._given_away(key_of(secrets[reference.secret], reference), reference)
        return found

    def _given_away(self, key: Secret | Unreadable, reference: KeyReference) -> Secret | Unreadable:
        """Whoever may name a Secret may name LiteLLM's own, and a provider of theirs to be sent it."""
        master = self._settings.litellm_master_key.get_secret_value().strip()
        if isinstance(key, Secret) and key.get_secret_value() == master:
            return Unreadable(
                f"Secret {reference.secret!r} holds LiteLLM's master key, which no provider gets"
            )
        return key

    async def _secret(self, name: str) -> SecretView | Unreadable:
        try:
            return await self._client.get(SECRET, ObjectKey(self._settings.namespace, name), view=SecretView)
        except NotFound:
            return Unreadable(f"Secret {name[:80]!r} is not there")
        except ApiError as error:
            return Unreadable(f"Secret {name[:80]!r} cannot be read ({type(error).__name__})")


def key_of(secret: SecretView | Unreadable, reference: KeyReference) -> Secret | Unreadable:
    """The text under a key of a Secret, without the line end that editors leave."""
    if isinstance(secret, Unreadable):
        return secret
    encoded = (secret.data or {}).get(reference.key)
    if encoded is None:
        return Unreadable(f"Secret {reference.secret!r} has no key {reference.key[:80]!r}")
    try:
        value = base64.b64decode(encoded, validate=True).decode().strip()
    except ValueError:
        value = ""
    if not value:
        return Unreadable(f"key {reference.key!r} of Secret {reference.secret!r} is empty or no text")
    return Secret(value)


def relevant(resource: Resource) -> object:
    """What of a source a route depends on; nothing else of it is worth a look at LiteLLM."""
    metadata = resource.metadata
    annotations = (metadata.annotations.get(CONTEXT_WINDOW), metadata.annotations.get(MAX_OUTPUT_TOKENS))
    status = section({"": resource.status}, "")
    return (
        resource.spec,
        resource.data,
        metadata.uid,
        metadata.dying,
        metadata.labels.get(MODEL),
        annotations,
        wanted(resource),
        runtime_ready(resource),
        bool(ready_replicas(resource)),
        status.get("runtimeEndpoint"),
    )
