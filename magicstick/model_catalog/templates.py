"""Keeps the models that AgentTemplates offer equal to the catalog (spec: companions §1.8).

The map of models is replaced, so that withdrawn ones vanish. The default model is set where nobody else
chooses one: on templates that belong to no instance always, on those of an instance only where none, or
the placeholder of the examples, stands. A template that cannot be read or written is only logged.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import structlog

from magicstick.api.labels import INSTANCE
from magicstick.kube.client import Client
from magicstick.kube.errors import ApiError, Invalid, KindNotServed
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import ObjectMeta
from magicstick.model_catalog.documents import Document
from magicstick.model_catalog.models import reference
from magicstick.model_catalog.publish import HASH
from magicstick.model_catalog.values import section, short_hash, text

log = structlog.get_logger(__name__)

AGENT_TEMPLATE: Final = Kind("kubeopencode.io", "v1alpha1", "AgentTemplate", "agenttemplates")
PLACEHOLDER: Final = "litellm/CHANGEME_MODEL"
DEFAULTS: Final = ("model", "small_model")


class TemplateMeta(ObjectMeta, frozen=True, rename="camel", gc=False):
    """The metadata, with owners whole: a PUT must not lose a part of one."""

    owner_references: Any = ()


class Template(msgspec.Struct, frozen=True, gc=False):
    """An AgentTemplate."""

    metadata: TemplateMeta
    spec: Mapping[str, Any] = {}


def with_models(template: Template, document: Document, *, annotated: bool = True) -> Mapping[str, Any]:
    """The spec of a template with the models of the catalog.

    `annotated`: its Pods also carry a hash of the configuration, where the schema has a place for it.
    """
    config = dict(section(template.spec, "config"))
    provider, litellm = (
        dict(section(config, "provider")),
        dict(section(section(config, "provider"), "litellm")),
    )
    litellm["models"] = dict(document.provider_models)
    config["provider"] = {**provider, "litellm": litellm}
    for field in DEFAULTS:
        chosen = text(config.get(field))
        if not template.metadata.labels.get(INSTANCE) or chosen in ("", PLACEHOLDER):
            config[field] = reference(document.default_chat)
    spec = {**template.spec, "config": config}
    if annotated:
        pod = dict(section(spec, "podSpec"))
        pod["annotations"] = {**section(pod, "annotations"), HASH: short_hash(config)}
        spec["podSpec"] = pod
    return spec


class Templates:
    """See the module. `names` are the templates that belong to no instance."""

    def __init__(self, client: Client, namespace: str, names: frozenset[str]) -> None:
        self._client = client
        self._namespace = namespace
        self._names = names
        self._annotated = True
        """False once a schema turned out to have no place for the hash."""
        self._told: frozenset[str] = frozenset()

    async def run(self, document: Document) -> None:
        """Write the templates that differ. Raises nothing but what is not about templates."""
        if not document.default_chat:
            return
        failed = set()
        try:
            for template in await self._list():
                failed |= await self._attempt(template, document)
        except KindNotServed:
            return  # nobody uses them here
        except ApiError as error:
            failed.add(f"list: {type(error).__name__}")
        for each in sorted(failed - self._told):
            log.warning("agent template not written", template=each)
        self._told = frozenset(failed)

    async def _list(self) -> list[Template]:
        return [
            template
            async for page in self._client.pages(AGENT_TEMPLATE, namespace=self._namespace, view=Template)
            for template in page.items
            if template.metadata.labels.get(INSTANCE) or template.metadata.name in self._names
        ]

    async def _attempt(self, template: Template, document: Document) -> set[str]:
        if template.metadata.dying:
            return set()
        try:
            await self._write(template, document)
        except ApiError as error:
            return {f"{template.metadata.name}: {type(error).__name__}"}
        return set()

    async def _write(self, template: Template, document: Document) -> None:
        try:
            await self._replace(template, with_models(template, document, annotated=self._annotated))
        except Invalid:
            if not self._annotated:
                raise
            await self._replace(template, with_models(template, document, annotated=False))
            self._annotated = False

    async def _replace(self, template: Template, spec: Mapping[str, Any]) -> None:
        if spec == template.spec:
            return
        metadata = template.metadata
        body = {
            "apiVersion": AGENT_TEMPLATE.api_version,
            "kind": AGENT_TEMPLATE.kind,
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                "labels": metadata.labels,
                "annotations": metadata.annotations,
                "finalizers": list(metadata.finalizers),
                "ownerReferences": list(metadata.owner_references),
            },
            "spec": spec,
        }
        await self._client.replace(AGENT_TEMPLATE, body)
        log.info("agent template updated", template=metadata.name)
