"""What must not stand in a public repository, and how it is found in text.

Each check yields what it found, so that a failure says what to take out. Hosts are admitted by name:
whoever needs another one adds it here and says what it is.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PLACES: Final = (
    "manifests",
    "catalogs",
    "charts",
    "examples",
    "docs",
    "hack/kind",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Containerfile",
)

PLACEHOLDER_DOMAINS: Final = ("example.com", "example.local")
OUR_DEFAULTS: Final = (
    "cluster.local",  # the domain of Services within a cluster
    "magicstick.local",  # the documented mDNS default; magicstick.example.com is a placeholder's
    "svc.cluster.local",  # addresses inside every cluster
)
API_GROUPS: Final = (
    "magicstick.dev",  # ours: appliance., gateway.
    "ai-appliance.io",  # annotations of the model catalog
    "palena.ai",
    "lab42.io",  # mDNS publication
    "k8s.io",
    "x-k8s.io",
    "k8s-sigs.io",
    "kubernetes.io",
    "fluxcd.io",
    "mittwald.de",  # secret generator's annotations
    "stakater.com",  # Reloader's annotations
    "cnpg.io",
    "envoyproxy.io",
    "cert-manager.io",
    "amd.com",
    "intel.com",
    "nvidia.com",
    "kubeai.org",
    "openclaw.rocks",
    "hermes.agent",
    "paperclip.inc",
    "paperclip.io",  # labels of Paperclip's plugin
    "cattle.io",  # Rancher's projects
    "kubeopencode.io",
)
PUBLIC_HOSTS: Final = (
    "docker.io",  # images
    "ghcr.io",  # images
    "quay.io",  # images
    "charts.jetstack.io",  # charts
    "kubernetes-sigs.github.io",  # charts
    "stakater.github.io",  # charts
    "rocm.github.io",  # charts
    "intel.github.io",  # charts
    "json-schema.org",  # the schema of our schemas
    "apache.org",  # the licence
    "keepachangelog.com",  # the form of the change log
)
PUBLIC_REPOSITORIES: Final = ("https://github.com/kubernetes-sigs/agent-sandbox.git",)
"""Whole addresses, since anybody's repository is at the same host."""
ALLOWED_DOMAINS: Final = (*PLACEHOLDER_DOMAINS, *OUR_DEFAULTS, *API_GROUPS, *PUBLIC_HOSTS)
IN_CLUSTER_HOST: Final = re.compile(r"kubernetes\.default\.svc|localhost|127\.0\.0\.1|0\.0\.0\.0")

_ENDINGS: Final = (
    "agent|ai|app|at|biz|ch|cloud|co|com|corp|de|dev|eu|fr|home|inc|info|internal|intranet|io|lan|local|me|net|"
    "nl|online|org|pro|rocks|run|systems|tech|uk|us|xyz"
)
_DOMAIN: Final = re.compile(
    rf"(?<![\w.-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:{_ENDINGS})(?![\w(-]|\.[a-z0-9])", re.IGNORECASE
)
_URL_HOST: Final = re.compile(
    r"\b(?:https?|oci|wss?|ssh|git|postgres(?:ql)?)://(?:[^\s/@\"'`]*@)?([a-z0-9][a-z0-9.-]*)", re.IGNORECASE
)
_DEFAULTED: Final = re.compile(r"\$\{\w+:=([^}]*)\}")
"""A variable of Flux, which stands for its default."""
_IPV4: Final = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_ADMITTED_NETWORKS: Final = tuple(
    ipaddress.ip_network(network)
    for network in ("127.0.0.0/8", "0.0.0.0/32", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
)
"""Loopback, "every address", and the three networks that are reserved for documentation."""
_EMAIL: Final = re.compile(r"[\w.+-]+@((?:[a-z0-9-]+\.)+[a-z]{2,})\b", re.IGNORECASE)
_CREDENTIALS: Final = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}"
    r"|\bgh[opsu]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{20,}"
    r"|\bhf_[A-Za-z0-9]{20,}|\bxox[abpr]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}"
    r"|-----BEGIN [A-Z ]+-----"
    r"|\bcli?ent-(?:key|certificate)-data:|\bcertificate-authority-data:"
)
_OPAQUE: Final = re.compile(
    r"(?<![A-Za-z0-9+/=_-])(?=[A-Za-z0-9+/]*[0-9])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])[A-Za-z0-9+/]{40,}={0,2}"
)
"""Base64 of something long; digests are lower-case hexadecimal and names have no digits in them."""
_PRIVATE_PATHS: Final = re.compile(
    r"(?<![\w.])/(?:home|Users|root|mnt|srv)/[\w.-]+|[A-Z]:\\\\?Users|\bgit@[\w.-]+:"
)
_ADMITTED_PATHS: Final = ("/root/.cache", "/root/.ollama")
"""Where images of engines keep models, inside their containers."""
_PLACEHOLDERS: Final = re.compile(
    r"\b(?:REPLACE[_-]?ME|FIX[_-]?ME|FILL[_-]?ME|TODO|TBD|YOUR[_-][A-Z_]+|your-[a-z-]*(?:domain|host|key|token|model))\b"
    r"|\b(?:foo|acme|mycompany|contoso)\b"
    r"|\b(?!CHANGEME)(?i:changeme|change[_-]me)"
)


def domains(text: str) -> Iterator[str]:
    """Names of hosts that are not admitted."""
    text = _DEFAULTED.sub(r"\1", text)
    for repository in PUBLIC_REPOSITORIES:
        text = text.replace(repository, "")
    found = [match.group() for match in _DOMAIN.finditer(text)]
    found += [match[1] for match in _URL_HOST.finditer(text) if not IN_CLUSTER_HOST.fullmatch(match[1])]
    for domain in found:
        if not any(f".{domain.lower()}".endswith(f".{allowed}") for allowed in ALLOWED_DOMAINS):
            yield domain


def addresses(text: str) -> Iterator[str]:
    """IPv4 addresses that belong to somebody, private ones first of all."""
    for match in _IPV4.finditer(text):
        try:
            address = ipaddress.ip_address(match.group())
        except ValueError:
            continue  # a version of four numbers
        if not any(address in network for network in _ADMITTED_NETWORKS):
            yield match.group()


def emails(text: str) -> Iterator[str]:
    """Addresses of people."""
    return (match.group() for match in _EMAIL.finditer(text) if match[1].lower() not in PLACEHOLDER_DOMAINS)


def credentials(text: str) -> Iterator[str]:
    """Keys, tokens, certificates, kubeconfigs."""
    yield from (match.group() for match in _CREDENTIALS.finditer(text))
    yield from (match.group() for match in _OPAQUE.finditer(text))


def private_paths(text: str) -> Iterator[str]:
    """Places on somebody's machine, or in somebody's repository."""
    return (match.group() for match in _PRIVATE_PATHS.finditer(text) if match.group() not in _ADMITTED_PATHS)


def placeholders(text: str) -> Iterator[str]:
    """Placeholders that are not `CHANGEME`, `example.com` or `example.local`."""
    return (match.group() for match in _PLACEHOLDERS.finditer(text))


CHECKS: Final[Mapping[str, Callable[[str], Iterator[str]]]] = {
    "domains": domains,
    "addresses": addresses,
    "emails": emails,
    "credentials": credentials,
    "private paths": private_paths,
    "placeholders": placeholders,
}


def files() -> list[Path]:
    """Every file that is published for others to use or read."""
    places = [ROOT / place for place in PLACES]
    found = [file for place in places for file in ([place] if place.is_file() else place.rglob("*"))]
    return sorted(file for file in found if file.is_file() and "__pycache__" not in file.parts)


def violations(check: str) -> list[str]:
    """`file: what was found` for every file."""
    return [
        f"{file.relative_to(ROOT)}: {found}" for file in files() for found in CHECKS[check](file.read_text())
    ]
