"""Host names: from what people call things to names that DNS can serve (spec: modules-and-apps §9.1).

All of it is total. What cannot be served is not shortened, since somebody would look for the whole name:
`hosts_problem` says so.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final

from magicstick.api.names import DNS_LABEL_LIMIT, DNS_SUBDOMAIN_LIMIT
from magicstick.apps.ports import Domains, Hosts
from magicstick.kube.objects import Resource

LOCAL_SUFFIX: Final = ".local"
"""Of all names in the local network."""

_MDNS_DOMAIN: Final = "AI_APPLIANCE_MDNS_DOMAIN"
_MDNS_NAMES: Final = ("AI_APPLIANCE_MDNS_NAME", "AI_APPLIANCE_DASHBOARD_MDNS_NAME")
_PUBLIC_DOMAIN: Final = "AI_APPLIANCE_DOMAIN"
_DASHBOARD_HOST: Final = "AI_APPLIANCE_DASHBOARD_HOST"
"""Keys of the settings ConfigMap (spec: magicstick-api §8.3)."""


def label(text: str, fallback: str = "") -> str:
    """`text` in ASCII lower-case letters and digits, with one `-` for every run of anything else.

    Accents go and compatible forms become plain ones before (`Zoë` is `zoe`); what has no plain form counts
    as anything else. `fallback` where nothing is left. May be longer than a DNS label.
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    bare = "".join(character for character in plain if not unicodedata.combining(character))
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-") or fallback


def short_name(name: str, application: str, values: Mapping[str, object]) -> str:
    """What an instance is called within its application: `values.name`, or else its own name.

    A leading `<application>-` is left out. A `values.name` of which no letter or digit is left counts as not
    given: the name of the instance is its own, so two of them do not end at one host. Never empty; may be
    longer than a DNS label.
    """
    return _short(_text(values.get("name")), application) or _short(name, application) or "default"


def domains_of(data: Mapping[str, str], mdns_default: str, public_default: str) -> Domains:
    """The domains that the settings ConfigMap names; defaults for what it leaves out or gets wrong."""
    mdns = _domain(data.get(_MDNS_DOMAIN, "")) or _mdns_from_name(data)
    public = _public(data.get(_PUBLIC_DOMAIN, "")) or public_default
    return Domains(
        mdns=mdns if mdns.endswith(LOCAL_SUFFIX) else mdns_default,
        public=public,
        dashboard=_public(data.get(_DASHBOARD_HOST, "")) or public,
    )


def hosts_of(short: str, application: str, domains: Domains) -> Hosts:
    """The local and the public name of an instance."""
    stem = f"{short}.{label(application, 'application')}"
    return Hosts(short, f"{stem}.{domains.mdns}", f"{stem}.{domains.public}")


def hosts_problem(hosts: Hosts) -> str | None:
    """What forbids to serve these names, with the limit; None if nothing does."""
    if len(hosts.short) > DNS_LABEL_LIMIT:
        return (
            "The short name, which is spec.values.name or else the name of the instance, must be at most "
            f"{DNS_LABEL_LIMIT} characters long to be served as a host name, not {len(hosts.short)}"
        )
    for host in (hosts.local, hosts.public):
        longest = max(host.split("."), key=len)
        if len(longest) > DNS_LABEL_LIMIT:
            return (
                f"Each part of the host name {host[:DNS_SUBDOMAIN_LIMIT]} must be at most {DNS_LABEL_LIMIT} "
                f"characters long, not {len(longest)}"
            )
        if len(host) > DNS_SUBDOMAIN_LIMIT:
            return (
                f"The host name {host[:DNS_SUBDOMAIN_LIMIT]}… must be at most {DNS_SUBDOMAIN_LIMIT} "
                f"characters long, not {len(host)}"
            )
    return None


def owner_of(claimants: Iterable[Resource]) -> Resource | None:
    """Which of the instances that claim one host has it: the oldest, among equals the first by name."""
    return min(
        claimants,
        key=lambda each: (each.metadata.creation_timestamp, each.metadata.name, each.metadata.uid),
        default=None,
    )


def _short(text: str, application: str) -> str:
    return label(text.strip().removeprefix(f"{application}-"))


def _text(value: object) -> str:
    """YAML reads a name of digits as a number."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _domain(text: str) -> str:
    """`text` with each label normalised and empty ones dropped; "" where DNS could not serve it."""
    labels = [part for part in map(label, text.split(".")) if part]
    domain = ".".join(labels)
    fits = len(domain) <= DNS_SUBDOMAIN_LIMIT and all(len(part) <= DNS_LABEL_LIMIT for part in labels)
    return domain if fits else ""


def _public(text: str) -> str:
    """Like `_domain`; "" also for what only the local network resolves."""
    domain = _domain(text)
    return "" if f".{domain}".endswith(LOCAL_SUFFIX) else domain


def _mdns_from_name(data: Mapping[str, str]) -> str:
    name = next(filter(None, (_domain(data.get(key, "")) for key in _MDNS_NAMES)), "")
    return f"{name}{LOCAL_SUFFIX}" if name else ""
