"""Host names: what they are made of, what is refused, and who has one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.names import is_dns_label, is_dns_subdomain
from magicstick.apps.gateway.hosts import (
    domains_of,
    hosts_of,
    hosts_problem,
    label,
    owner_of,
    short_name,
)
from magicstick.apps.ports import Domains
from tests.support.objects import resource

DOMAINS = Domains("magicstick.local", "magicstick.example.com", "dashboard.example.com")
MDNS, PUBLIC = "magicstick.local", "magicstick.example.com"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("demo", "demo"),
        ("  Demo  ", "demo"),
        ("My  Demo!!", "my-demo"),
        ("--demo--", "demo"),
        ("a.b_c/d", "a-b-c-d"),
        ("Zoë Müller", "zoe-muller"),
        ("Zoe\u0308", "zoe"),
        ("Straße", "strasse"),
        ("\uff26\uff2c\u3000\uff57\uff54", "fl-wt"),
        ("№ 5 ℡", "no-5-tel"),
        ("ﬁne", "fine"),
        ("İzmir", "izmir"),
        ("d\u0131no", "d-no"),
        ("東京-demo", "demo"),
        ("демо", ""),
        ("🙂", ""),
        ("٣", ""),
        ("², ³", "2-3"),
        ("a\u0000b", "a-b"),
        ("\ud800x", "x"),
        ("", ""),
    ],
)
def test_a_label_is_ascii_and_normalised_first(text: str, made: str) -> None:
    assert label(text) == made


@given(st.text(max_size=80))
def test_a_label_that_is_short_enough_can_be_served(text: str) -> None:
    made = label(text, "fallback")
    assert is_dns_label(made, limit=1000)
    assert label(made) == made


@pytest.mark.parametrize(
    ("name", "application", "values", "short"),
    [
        ("kubeopencode-demo", "kubeopencode", {"name": "demo"}, "demo"),
        ("kubeopencode-demo", "kubeopencode", {}, "demo"),
        ("kubeopencode-demo", "kubeopencode", {"name": "kubeopencode-other"}, "other"),
        ("paperclip", "paperclip", {}, "paperclip"),
        ("hermes-one", "openclaw", {}, "hermes-one"),
        ("hermes-one", "hermes", {"name": " Team A "}, "team-a"),
        ("hermes-one", "hermes", {"name": ""}, "one"),
        ("hermes-one", "hermes", {"name": "東京"}, "one"),
        ("hermes-one", "hermes", {"name": "!!"}, "one"),
        ("hermes-one", "hermes", {"name": None}, "one"),
        ("hermes-one", "hermes", {"name": True}, "one"),
        ("hermes-one", "hermes", {"name": {"a": "b"}}, "one"),
        ("hermes-one", "hermes", {"name": 5}, "5"),
        ("hermes-one", "hermes", {"name": "a.b"}, "a-b"),
        ("hermes-", "hermes", {}, "default"),
    ],
)
def test_the_short_name_is_what_the_user_calls_the_instance(
    name: str, application: str, values: dict[str, object], short: str
) -> None:
    assert short_name(name, application, values) == short


@pytest.mark.req("MS-157")
@pytest.mark.req("MS-231")
def test_hosts_are_short_name_application_and_domain() -> None:
    hosts = hosts_of("demo", "kubeopencode", DOMAINS)
    assert hosts.local == "demo.kubeopencode.magicstick.local"
    assert hosts.public == "demo.kubeopencode.magicstick.example.com"
    assert hosts.local_name == "demo.kubeopencode.magicstick"
    assert hosts_of("demo", "Open Claw", DOMAINS).local == "demo.open-claw.magicstick.local"


@pytest.mark.parametrize(("length", "served"), [(62, True), (63, True), (64, False)])
def test_a_label_over_63_characters_is_refused_with_the_limit(length: int, *, served: bool) -> None:
    problem = hosts_problem(hosts_of("a" * length, "hermes", DOMAINS))
    assert (problem is None) == served
    if problem is not None:
        assert "spec.values.name" in problem
        assert "at most 63 characters long" in problem
        assert "not 64" in problem
    other = hosts_problem(hosts_of("demo", "h" * length, DOMAINS))
    assert (other is None) == served


@pytest.mark.parametrize(("length", "served"), [(252, True), (253, True), (254, False)])
def test_a_host_over_253_characters_is_refused_with_the_limit(length: int, *, served: bool) -> None:
    rest = length - len("demo.hermes.") - len(".example.com")
    labels = [("a" * 50)] * (rest // 51) + ["b" * (rest % 51)]
    public = ".".join(labels) + ".example.com"
    hosts = hosts_of("demo", "hermes", Domains(MDNS, public, public))
    assert len(hosts.public) == length
    problem = hosts_problem(hosts)
    assert (problem is None) == served
    assert served or "at most 253 characters long, not 254" in str(problem)


def test_what_is_told_of_a_megabyte_of_name_is_short() -> None:
    assert len(hosts_problem(hosts_of("a" * 2**20, "hermes", DOMAINS)) or "") < 200
    assert len(hosts_problem(hosts_of("a", "h" * 2**20, DOMAINS)) or "") < 400


@given(st.text(max_size=90), st.text(max_size=90), st.text(max_size=90))
def test_a_host_without_a_problem_can_be_served(name: str, application: str, given_name: str) -> None:
    hosts = hosts_of(short_name(name, application, {"name": given_name}), application, DOMAINS)
    if hosts_problem(hosts) is None:
        assert is_dns_subdomain(hosts.local)
        assert is_dns_subdomain(hosts.public)
        assert all(is_dns_label(part) for part in hosts.public.split("."))


@pytest.mark.parametrize(
    ("data", "domains"),
    [
        ({}, Domains(MDNS, PUBLIC, PUBLIC)),
        (
            {"AI_APPLIANCE_MDNS_DOMAIN": "Box.Local", "AI_APPLIANCE_DOMAIN": "Apps.Example.COM."},
            Domains("box.local", "apps.example.com", "apps.example.com"),
        ),
        ({"AI_APPLIANCE_MDNS_DOMAIN": "my box..local"}, Domains("my-box.local", PUBLIC, PUBLIC)),
        ({"AI_APPLIANCE_MDNS_DOMAIN": "example.com"}, Domains(MDNS, PUBLIC, PUBLIC)),
        ({"AI_APPLIANCE_MDNS_DOMAIN": "local"}, Domains(MDNS, PUBLIC, PUBLIC)),
        ({"AI_APPLIANCE_MDNS_NAME": "box"}, Domains("box.local", PUBLIC, PUBLIC)),
        ({"AI_APPLIANCE_DASHBOARD_MDNS_NAME": "old"}, Domains("old.local", PUBLIC, PUBLIC)),
        (
            {"AI_APPLIANCE_MDNS_NAME": "box", "AI_APPLIANCE_DASHBOARD_MDNS_NAME": "old"},
            Domains("box.local", PUBLIC, PUBLIC),
        ),
        (
            {"AI_APPLIANCE_MDNS_DOMAIN": "example.com", "AI_APPLIANCE_MDNS_NAME": "box"},
            Domains(MDNS, PUBLIC, PUBLIC),
        ),
        ({"AI_APPLIANCE_MDNS_DOMAIN": f"{'a' * 64}.local"}, Domains(MDNS, PUBLIC, PUBLIC)),
        ({"AI_APPLIANCE_DOMAIN": "example.local"}, Domains(MDNS, PUBLIC, PUBLIC)),
        ({"AI_APPLIANCE_DOMAIN": "local"}, Domains(MDNS, PUBLIC, PUBLIC)),
        ({"AI_APPLIANCE_DOMAIN": " . "}, Domains(MDNS, PUBLIC, PUBLIC)),
        (
            {"AI_APPLIANCE_DASHBOARD_HOST": "Dash.Example.com"},
            Domains(MDNS, PUBLIC, "dash.example.com"),
        ),
        ({"AI_APPLIANCE_DASHBOARD_HOST": "dash.local"}, Domains(MDNS, PUBLIC, PUBLIC)),
    ],
)
def test_domains_come_from_the_settings_and_from_defaults_where_these_are_unusable(
    data: dict[str, str], domains: Domains
) -> None:
    assert domains_of(data, MDNS, PUBLIC) == domains


@given(st.dictionaries(st.sampled_from(["AI_APPLIANCE_MDNS_DOMAIN", "AI_APPLIANCE_DOMAIN"]), st.text()))
def test_domains_can_be_served_whatever_the_settings_are(data: dict[str, str]) -> None:
    domains = domains_of(data, MDNS, PUBLIC)
    assert is_dns_subdomain(domains.mdns)
    assert domains.mdns.endswith(".local")
    assert is_dns_subdomain(domains.public)
    assert not domains.public.endswith(".local")


def test_a_host_belongs_to_the_oldest_and_among_equals_to_the_first_by_name() -> None:
    claims = [
        resource({"metadata": {"name": name, "uid": name, "creationTimestamp": created}})
        for name, created in [
            ("young", "2026-01-03T00:00:00Z"),
            ("b", "2026-01-01T00:00:00Z"),
            ("a", "2026-01-01T00:00:00Z"),
        ]
    ]
    for order in (claims, claims[::-1]):
        owner = owner_of(order)
        assert owner is not None
        assert owner.metadata.name == "a"
    after = owner_of(each for each in claims if each.metadata.name != "a")
    assert after is not None
    assert after.metadata.name == "b"
    assert owner_of([]) is None
