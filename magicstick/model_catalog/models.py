"""The models of the catalog, as LiteLLM has them: ours, foreign ones, and imports of the mesh.

(spec: companions §1.6)
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from magicstick.model_catalog.inventory import Deployment
from magicstick.model_catalog.routes import TYPE
from magicstick.model_catalog.values import first_positive, first_text, is_name, items, kind_of_model

CatalogModel = dict[str, Any]
"""One entry of `catalog.json`: plain data."""

PROVIDER: Final = "litellm"
MESH_EXPORT: Final = "mesh-export"
"""The source of aliases that other appliances use; nobody here should."""
CONTEXT_NAMES: Final = (
    "max_input_tokens",
    "contextWindow",
    "context_window",
    "context_length",
    "max_context_length",
    "max_tokens",
)
OUTPUT_NAMES: Final = ("max_output_tokens", "maxOutputTokens", "max_completion_tokens")


def catalog_models(existing: Sequence[Deployment]) -> tuple[CatalogModel, ...]:
    """One entry for each name, by type and id; of several deployments the first in order speaks."""
    speaking: dict[str, Deployment] = {}
    for each in sorted(existing, key=lambda one: (_order(one), one.id)):
        if each.info.get("source") != MESH_EXPORT and is_name(each.name):
            speaking.setdefault(each.name, each)
    return tuple(sorted(map(_entry, speaking.values()), key=lambda one: (one["type"], one["id"])))


def of_type(models: Iterable[CatalogModel], kind: str) -> tuple[CatalogModel, ...]:
    """The models of one type, in their order."""
    return tuple(each for each in models if each["type"] == kind)


def default_of(models: Sequence[CatalogModel], configured: str) -> str:
    """The id of the default among models of one type: the configured one, else the first, else ""."""
    ids = [each["id"] for each in models]
    return configured if configured in ids else next(iter(ids), "")


def reference(model_id: str) -> str:
    """How consumers name a model; "" stays so."""
    return f"{PROVIDER}/{model_id}" if model_id else ""


def _order(deployment: Deployment) -> int:
    found = deployment.info.get("order")
    return found if type(found) is int else 0


def _entry(deployment: Deployment) -> CatalogModel:
    name, info = deployment.name, deployment.info
    base = _without_credentials(first_text(deployment.params.get("api_base")))
    litellm = {"model": first_text(deployment.params.get("model")), "apiBase": base}
    limits = {
        "contextWindow": first_positive(*(info.get(each) for each in CONTEXT_NAMES)),
        "maxOutputTokens": first_positive(*(info.get(each) for each in OUTPUT_NAMES)),
    }
    return {
        "id": name,
        "name": first_text(info.get("team_public_model_name")) or name,
        "type": first_text(info.get(TYPE)).lower() or kind_of_model(items(info, "features"), name),
        "provider": PROVIDER,
        "modelRef": reference(name),
        "source": deployment.source or PROVIDER,
        "managed": deployment.managed,
        "litellm": {field: value for field, value in litellm.items() if value},
        **{field: value for field, value in limits.items() if value is not None},
    }


def _without_credentials(url: str) -> str:
    """The catalog is read by every consumer: what stands before the host or after the path stays out."""
    try:
        parts = urlsplit(url)
        if not parts.hostname:
            return ""
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
