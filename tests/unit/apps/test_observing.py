"""What is seen of an instance, and which instances a change wakes."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from magicstick.api.kinds import APP_INSTANCE, APPLIANCE, HELM_RELEASE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.apps.gateway.plan import wanted
from magicstick.apps.kinds import ACCESS_KINDS, HTTP_ROUTE, REFERENCE_GRANT, SECURITY_POLICY, SERVICE
from magicstick.apps.observation import UNKNOWN_DOMAINS
from magicstick.apps.way_in import access, hosts
from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.kube.discovery import CrdView
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    ObjectKey,
)
from magicstick.kube.objects import Resource
from tests.support.gateway_objects import KINDS, bodies, stored
from tests.support.instance_objects import (
    NAME,
    SHIPPED,
    decided,
    instance,
    message,
    observation,
    release,
    told,
)
from tests.support.instance_world import InstanceWorld, namespace, release_definition
from tests.support.module_objects import activation, kustomization
from tests.support.objects import resource


def world(*instances: Resource) -> InstanceWorld:
    """A world with these instances, and an Appliance."""
    made = InstanceWorld()
    made.put(APP_INSTANCE, *instances)
    return made


def pieces(name: str = NAME, **spec: Any) -> list[Resource]:
    """The whole way in to an instance of kubeopencode, as the server holds it."""
    o = observation(instance(name, **spec))
    assert o.definition is not None
    wants = wanted(access(o, o.spec, o.definition), o.gateway)  # type: ignore[arg-type] # made valid here
    return [stored(body) for body in bodies(wants).values()]


def config_map(data: dict[str, str]) -> Resource:
    metadata = {
        "name": "ai-appliance-settings",
        "namespace": "flux-system",
        "uid": "u",
        "resourceVersion": "1",
    }
    return resource({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def service(name: str, space: str = "ai") -> Resource:
    metadata = {"name": name, "namespace": space, "uid": f"uid-{name}", "resourceVersion": "1"}
    return resource({"apiVersion": "v1", "kind": "Service", "metadata": metadata})


def appliance(source: str) -> Resource:
    metadata = {
        "name": "local",
        "namespace": "ai-system",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
    }
    spec = {"source": {"kind": "GitRepository", "name": source}}
    return resource({"apiVersion": "x", "kind": "Appliance", "metadata": metadata, "spec": spec})


# --- what is seen -----------------------------------------------------------------------------------


def test_all_that_is_made_for_an_instance_is_found_by_its_label() -> None:
    live = instance()
    seen = world(live)
    for each in pieces():
        seen.put(KINDS[each.kind], each)
    elsewhere = stored(
        {
            "apiVersion": "gateway.networking.k8s.io/v1beta1",
            "kind": "ReferenceGrant",
            "metadata": {
                "name": f"{NAME}-route-access",
                "namespace": "former",
                "labels": dict(pieces()[0].metadata.labels),
            },
            "spec": {},
        }
    )
    seen.put(REFERENCE_GRANT, elsewhere)
    seen.put(HELM_RELEASE, release(), release("other"))
    o = seen.observed(live)

    assert {(each.kind, each.live.metadata.name) for each in o.live.pieces} >= {
        (HTTP_ROUTE, f"{NAME}-public-callback"),
        (SECURITY_POLICY, f"{NAME}-local-sso"),
    }
    grants = [each.live.metadata.namespace for each in o.live.pieces if each.kind == REFERENCE_GRANT]
    assert sorted(grants) == ["ai", "former"]
    assert [each.metadata.name for each in o.releases] == [NAME]
    assert len(o.live.occupants) == 7


def test_a_release_of_somebody_else_under_the_instances_name_is_not_taken_for_its_own() -> None:
    live = instance()
    seen = world(live)
    seen.put(HELM_RELEASE, release(foreign=True))

    observed = seen.observed(live)
    assert observed.releases == ()
    assert observed.stranger is not None
    seen.put(HELM_RELEASE, release())
    assert seen.observed(live).stranger is None


def test_of_two_instances_for_one_host_the_older_has_it_until_it_is_gone() -> None:
    older = instance("kubeopencode-demo", created="2026-01-01T00:00:00Z")
    newer = instance("mine", values={"name": "demo"}, created="2026-01-02T00:00:00Z")
    other = instance("odysseus-demo", "odysseus", created="2025-01-01T00:00:00Z")
    seen = world(older, newer, other)

    assert [seen.observed(each).host_owner for each in (older, newer, other)] == ["", "kubeopencode-demo", ""]
    dying = instance("kubeopencode-demo", created="2026-01-01T00:00:00Z", dying=True)
    seen.put(APP_INSTANCE, dying)
    assert seen.observed(newer).host_owner == "kubeopencode-demo"
    seen.places.store(APP_INSTANCE, "ai-system").event(
        "DELETED",
        msgspec.structs.replace(
            dying, metadata=msgspec.structs.replace(dying.metadata, resource_version="999")
        ),
    )
    assert seen.observed(newer).host_owner == ""


def test_applications_that_are_served_under_one_name_are_rivals() -> None:
    """The host names are made of labels, not of what the catalog calls an application."""
    older = instance("a-demo", "my--app", values={"name": "demo"}, created="2026-01-01T00:00:00Z")
    newer = instance("b-demo", "my-app", values={"name": "demo"}, created="2026-01-02T00:00:00Z")
    seen = world(older, newer)
    seen.catalogs.bring("applications", catalog_of("my--app", "my-app"))
    assert len({hosts(seen.observed(each)).local for each in (older, newer)}) == 1
    assert seen.observed(newer).host_owner == "a-demo"
    assert seen.observed(older).host_owner == ""
    assert seen.wakes(APP_INSTANCE, older, None) == ["a-demo", "b-demo"]
    route = next(each for each in pieces() if each.kind == "HTTPRoute")
    taken = msgspec.structs.replace(route, spec={**route.spec, "hostnames": ["demo.my-app.example.com"]})
    assert seen.wakes(HTTP_ROUTE, None, taken) == ["a-demo", "b-demo"]


def catalog_of(*keys: str) -> ApplicationCatalog:
    """A catalog in which these are applications like kubeopencode."""
    entry = SHIPPED["applications"]["kubeopencode"]
    return ApplicationCatalog.parse(json.dumps({"applications": dict.fromkeys(keys, entry)}))


def test_an_instance_that_can_never_be_served_takes_no_host_from_others() -> None:
    blocked = instance("a" * 54, values={"name": "demo"}, created="2025-01-01T00:00:00Z")
    foreign = instance("foreign", values={"name": "demo"}, applianceRef={"name": "other"})
    misnamed = instance("misnamed", "KubeOpenCode", values={"name": "demo"}, created="2025-01-01T00:00:00Z")
    mine = instance(created="2026-01-02T00:00:00Z")

    assert world(blocked, foreign, misnamed, mine).observed(mine).host_owner == ""


def test_the_routes_of_another_instance_to_the_same_host_are_rivals() -> None:
    mine = instance("mine", values={"name": "demo"})
    seen = world(instance(), mine)
    for each in pieces():
        seen.put(KINDS[each.kind], each)

    assert {each.metadata.name for each in seen.observed(mine).live.rivals} == {
        f"{NAME}-local",
        f"{NAME}-public",
    }
    assert seen.observed(instance()).live.rivals == ()


def test_e42_domains_come_from_the_settings_and_default_where_they_say_nothing_of_use() -> None:
    live = instance()
    seen = world(live)
    assert seen.observed(live).domains.mdns == "magicstick.local"
    seen.put(CONFIG_MAP, config_map({"AI_APPLIANCE_DOMAIN": "apps.example.com"}))
    assert seen.observed(live).domains.public == "apps.example.com"
    seen.put(CONFIG_MAP, config_map({"AI_APPLIANCE_MDNS_DOMAIN": "example.com"}))
    assert seen.observed(live).domains.mdns == "magicstick.local"


def test_settings_that_could_never_be_read_rename_nothing() -> None:
    live = instance()
    seen = world(live)
    seen.places.stores[CONFIG_MAP, "flux-system", "ai-appliance-settings"].withdraw()
    o = seen.observed(live)

    assert o.domains is UNKNOWN_DOMAINS
    assert told(decided(o)) == ("Reconciling", "ApiUnavailable")
    assert "settings" in message(decided(o))


@pytest.mark.parametrize("kind", [HELM_RELEASE, *ACCESS_KINDS])
def test_a_kind_that_cannot_be_read_blinds_and_one_that_is_absent_is_waited_for(kind: Any) -> None:
    live = instance()
    seen = world(live)
    seen.places.become(kind, InformerState.FAILING)
    assert kind.kind in seen.observed(live).blind
    seen.places.become(kind, InformerState.ABSENT)
    o = seen.observed(live)
    assert (o.blind, o.unserved) == ("", (kind.crd_name,))
    assert seen.woken == [NAME, NAME]


@pytest.mark.parametrize("kind", [NAMESPACE, SERVICE])
def test_surroundings_that_cannot_be_read_hold_up_what_is_wanted(kind: Any) -> None:
    live = instance()
    seen = world(live)
    seen.places.become(kind, InformerState.FAILING)

    assert told(decided(seen.observed(live))) == ("Reconciling", "ApiUnavailable")


@pytest.mark.parametrize("retries", [True, False])
def test_the_served_schema_says_whether_flux_can_retry(*, retries: bool) -> None:
    live = instance()
    seen = world(live)
    seen.put(CUSTOM_RESOURCE_DEFINITION, release_definition(retries=retries))

    assert seen.observed(live).retries is retries


NEEDS: dict[str, tuple[set[str], set[str]]] = {
    "openclaw": ({"openclaw-operator"}, {"openclawinstances.openclaw.rocks"}),
    "hermes": ({"hermes-operator"}, {"hermesinstances.hermes.agent"}),
    "paperclip": (
        {"paperclip-operator", "agent-sandbox"},
        {"instances.paperclip.inc", "sandboxes.agents.x-k8s.io"},
    ),
    "kubeopencode": ({"kubeopencode"}, {"agenttemplates.kubeopencode.io", "agents.kubeopencode.io"}),
    "odysseus": ({"odysseus"}, set()),
}


@pytest.mark.req("MS-123", "MS-184", "MS-186", "MS-188", "MS-191", "MS-192", "MS-194", "MS-195", "MS-312")
@pytest.mark.parametrize("application", NEEDS)
def test_each_application_needs_its_own_modules_and_definitions_and_two_for_all(application: str) -> None:
    modules, definitions = NEEDS[application]
    live = instance(f"{application}-demo", application)
    seen = world(live)
    seen.definitions.answers = dict.fromkeys(definitions, False)
    o = seen.observed(live)

    assert {each.name for each in o.modules} == {*modules, "litellm", "model-catalog"}
    assert set(o.missing_crds) == definitions
    waiting = replace(o, modules=())
    assert told(decided(waiting))[0] == ("WaitingForCRD" if definitions else "Reconciling")
    assert definitions == set() or decided(waiting).steps == o.requests


@pytest.mark.req("MS-111")
def test_missing_modules_are_requested_for_an_enabled_instance_alone() -> None:
    on, off = instance(), instance("kubeopencode-off", enabled=False)
    seen = world(on, off)

    requested = [step.body["metadata"]["name"] for step in seen.observed(on).requests]
    assert requested == ["kubeopencode", "litellm", "model-catalog"]
    assert seen.observed(off).requests == ()


def test_of_an_instance_that_is_not_ours_nothing_is_looked_at() -> None:
    live = instance(applianceRef={"name": "other"})
    seen = world(live)
    seen.put(HELM_RELEASE, release())

    assert (seen.observed(live).ours, seen.observed(live).releases) == (False, ())


# --- what wakes whom --------------------------------------------------------------------------------


def three() -> InstanceWorld:
    """Two instances of one application, and one of another, elsewhere."""
    return world(
        instance(), instance("kubeopencode-two"), instance("odysseus-one", "odysseus", targetNamespace="lab")
    )


@pytest.mark.req("MS-100")
def test_what_is_made_for_an_instance_wakes_it_and_nobody_else() -> None:
    seen = three()
    for each in pieces():
        assert seen.wakes(KINDS[each.kind], None, each) == [NAME]
        assert seen.wakes(KINDS[each.kind], each, None) == [NAME]
    assert seen.wakes(HELM_RELEASE, None, release("odysseus-one")) == ["odysseus-one"]
    assert seen.wakes(HELM_RELEASE, None, release("odysseus-one", foreign=True)) == ["odysseus-one"]
    assert seen.wakes(HELM_RELEASE, None, release("stranger")) == []


def test_a_stranger_at_a_place_that_is_needed_wakes_whoever_needs_it() -> None:
    metadata = {"name": f"{NAME}-local", "namespace": "identity-system", "uid": "u", "resourceVersion": "1"}
    stranger = resource({"apiVersion": "x", "kind": "HTTPRoute", "metadata": metadata, "spec": {}})

    assert three().wakes(HTTP_ROUTE, stranger, None) == [NAME]


def test_rivals_for_a_host_are_woken_by_each_other_and_by_each_others_routes() -> None:
    rival = instance("mine", values={"name": "demo"})
    seen = world(instance(), rival, instance("kubeopencode-two"))

    assert seen.wakes(APP_INSTANCE, instance(), None) == [NAME, "mine"]
    (route,) = [each for each in pieces() if each.metadata.name == f"{NAME}-local"]
    assert seen.wakes(HTTP_ROUTE, route, None) == [NAME, "mine"]


def test_services_and_namespaces_wake_those_that_lead_to_them() -> None:
    seen = three()

    assert seen.wakes(SERVICE, None, service("demo")) == [NAME]
    assert seen.wakes(SERVICE, None, service("kubeopencode-two")) == ["kubeopencode-two"]
    assert seen.wakes(SERVICE, None, service("demo", "elsewhere")) == []
    assert seen.wakes(SERVICE, service("demo"), service("demo")) == []
    assert seen.wakes(NAMESPACE, None, namespace("lab")) == ["odysseus-one"]
    assert seen.wakes(NAMESPACE, namespace("lab"), namespace("lab", labels={"label": "new"})) == []
    assert seen.wakes(NAMESPACE, namespace("lab"), namespace("lab", dying=True)) == ["odysseus-one"]


@pytest.mark.req("MS-310")
def test_a_module_wakes_the_instances_that_need_it_when_it_becomes_ready_and_not_before() -> None:
    seen = three()
    waiting, fine = (
        kustomization("app-odysseus", module="odysseus", ready=None),
        kustomization("app-odysseus", module="odysseus"),
    )

    assert seen.wakes(KUSTOMIZATION, None, waiting) == ["odysseus-one"]
    assert seen.wakes(KUSTOMIZATION, waiting, waiting) == []
    assert seen.wakes(KUSTOMIZATION, waiting, fine) == ["odysseus-one"]
    assert seen.wakes(KUSTOMIZATION, fine, None) == ["odysseus-one"]
    assert seen.wakes(MODULE_ACTIVATION, None, activation("other")) == []
    assert seen.wakes(MODULE_ACTIVATION, None, activation("litellm")) == [
        NAME,
        "kubeopencode-two",
        "odysseus-one",
    ]


@pytest.mark.req("MS-313")
def test_a_definition_wakes_the_instances_that_wait_for_it() -> None:
    body = {
        "metadata": {"name": "agents.kubeopencode.io", "uid": "u"},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }
    established = msgspec.convert(body, CrdView)

    assert three().wakes(CUSTOM_RESOURCE_DEFINITION, None, established) == [NAME, "kubeopencode-two"]


def test_source_and_domains_wake_everyone_and_nothing_else_of_them_does() -> None:
    seen, everyone = three(), [NAME, "kubeopencode-two", "odysseus-one"]

    assert seen.wakes(APPLIANCE, appliance("a"), appliance("b")) == everyone
    assert seen.wakes(APPLIANCE, appliance("a"), appliance("a")) == []
    (edge,) = [each for each in seen.instances.declaration.edges if each.kind == CONFIG_MAP]
    assert len(list(edge.wakes(None, None))) == len(everyone)
    assert not edge.changed(config_map({"A": "1"}), config_map({"A": "1"}))
    assert edge.changed(config_map({"A": "1"}), config_map({"A": "2"}))


def test_a_new_catalog_wakes_the_instances_of_the_applications_that_it_changes() -> None:
    seen = three()
    changed = json.loads(json.dumps(SHIPPED))
    changed["applications"]["odysseus"]["route"]["port"] = 7001
    seen.catalogs.bring("applications", ApplicationCatalog.parse(json.dumps(changed)))
    assert seen.woken == ["odysseus-one"]

    seen.woken.clear()
    seen.catalogs.bring("modules", seen.catalogs.modules)
    assert seen.woken == []


def test_an_instance_is_found_by_the_places_of_its_longest_name() -> None:
    name = "a" * 53
    seen = world(instance(name))
    places = pieces(name)

    assert all(seen.wakes(KINDS[each.kind], None, each) == [name] for each in places)
    assert all(len(each.metadata.name) <= 63 for each in places)
    assert ObjectKey("ai-system", name) in seen.facts.instances
