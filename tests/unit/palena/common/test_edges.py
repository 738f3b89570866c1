"""Edges that all kinds of Palena share."""

from magicstick.composition.palena import palena
from magicstick.kube.discovery import CrdView, Discovery
from magicstick.kube.objects import FullObjectMeta, Resource
from magicstick.kube.scope import Scope
from magicstick.kube.store import Store
from magicstick.palena.common.edges import READ_SECRETS
from magicstick.palena.common.secrets import SECRET, SystemEntropy
from magicstick.runtime.reads import Reads
from magicstick.runtime.settings import Settings
from tests.support.runtime import FakeStores


def secret_scopes(**settings: object) -> dict[str, set[Scope]]:
    """Which Secrets each controller reads."""
    loaded = Settings.load(magicstick_enable_palena=True, **settings)
    discovery = Discovery(Store[CrdView]("definitions"))
    found = palena(Reads(FakeStores()), loaded, discovery, SystemEntropy())
    return {
        each.declaration.name: {edge.scope for edge in each.declaration.edges if edge.kind == SECRET}
        for each in found
    }


def test_all_share_one_watch_of_secrets_without_those_that_nobody_names() -> None:
    scopes = secret_scopes()
    assert len(scopes) == 5
    assert set.union(*scopes.values()) == {Scope(SECRET, field_selector=READ_SECRETS)}


def test_in_one_namespace_they_are_left_out_as_well() -> None:
    found = set.union(*secret_scopes(palena_watch_namespaces="one,two").values())
    assert found == {Scope(SECRET, each, field_selector=READ_SECRETS) for each in ("one", "two")}


def test_what_helm_and_the_server_keep_for_themselves_is_left_out_and_nothing_else() -> None:
    scope = Scope(SECRET, field_selector=READ_SECRETS)
    types = {
        "helm.sh/release.v1": False,
        "kubernetes.io/service-account-token": False,
        "Opaque": True,
        "kubernetes.io/basic-auth": True,
        "kubernetes.io/tls": True,
        "kubernetes.io/dockerconfigjson": True,
        "": True,
    }
    named = {each: Resource(FullObjectMeta(name="a", namespace="b"), type=each) for each in types}
    assert {each: scope.covers(obj) for each, obj in named.items()} == types
