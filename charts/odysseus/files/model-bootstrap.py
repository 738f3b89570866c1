"""Registers LiteLLM as a model endpoint of Odysseus, again and again.

Odysseus takes endpoints through its API alone; variables of its environment are not enough. The ready file
appears with the first registration, so the Pod takes requests only once it has a model, and it stays: a later
outage of LiteLLM does not take a working Odysseus away from its users. Registering is idempotent.

Standard library only, since the image is Odysseus' own. Neither logs nor errors ever hold the key: an answer
may echo the form that was sent, so of a refusal only the code is told.
"""

# ruff: noqa: INP001 - a file on its own, run by its path

import http.client
import json
import logging
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

LOG = logging.getLogger("model-bootstrap")

READY_FILE = "/tmp/ready"  # noqa: S108 - an emptyDir of the Pod alone
PLACEHOLDER = "CHANGEME_MODEL"
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0
LARGEST_ANSWER = 4 << 20

Post = Callable[[urllib.request.Request, float], bytes]


class ConfigError(Exception):
    """The environment cannot work; names the variable."""


class RegistrationError(Exception):
    """This try did not register the model; the next one may."""


@dataclass(frozen=True)
class Config:
    """What the environment says. Durations are in seconds."""

    odysseus_url: str
    litellm_url: str
    api_key: str = field(repr=False)
    model: str
    endpoint_name: str
    ready_file: Path
    request_timeout: int
    interval: int

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Config":
        """Reads and checks the environment.

        Raises:
            ConfigError: a variable is missing or out of its bounds.
        """
        model = environ.get("ODYSSEUS_DEFAULT_MODEL", "").strip()
        if model in ("", PLACEHOLDER):
            raise ConfigError(
                "ODYSSEUS_DEFAULT_MODEL must name a model: set `model` in the instance's values"
            )
        api_key = environ.get("LITELLM_API_KEY", "").strip()
        if not api_key:
            raise ConfigError("LITELLM_API_KEY must be set")
        return cls(
            odysseus_url=_url(environ, "ODYSSEUS_API_URL", "http://127.0.0.1:7000"),
            litellm_url=_url(environ, "LITELLM_BASE_URL", "http://litellm.ai.svc.cluster.local:4000/v1"),
            api_key=api_key,
            model=model,
            endpoint_name=environ.get("ODYSSEUS_ENDPOINT_NAME", "").strip() or "Magic Stick LiteLLM",
            ready_file=Path(environ.get("ODYSSEUS_BOOTSTRAP_READY_FILE", "").strip() or READY_FILE),
            request_timeout=_seconds(environ, "ODYSSEUS_BOOTSTRAP_REQUEST_TIMEOUT", 45, 5, 120),
            interval=_seconds(environ, "ODYSSEUS_BOOTSTRAP_RECONCILE_INTERVAL", 300, 30, 3600),
        )


@dataclass(frozen=True)
class Registration:
    """What Odysseus answered: the endpoint, and whether it had been there before."""

    endpoint: str
    existing: bool


def register(config: Config, post: Post) -> Registration:
    """Sends the one request that makes or confirms the endpoint.

    Raises:
        RegistrationError: it did not arrive, was refused, or the answer does not have the model.
    """
    form = {
        "name": config.endpoint_name,
        "base_url": config.litellm_url,
        "api_key": config.api_key,
        "require_models": "true",
        "endpoint_kind": "proxy",
        "pinned_models": config.model,
        "shared": "true",
    }
    request = urllib.request.Request(  # noqa: S310 - the configuration admits http and https only
        f"{config.odysseus_url}/api/model-endpoints",
        data=urllib.parse.urlencode(form).encode(),
        headers={"Accept": "application/json"},
        method="POST",
    )
    try:
        body = post(request, config.request_timeout)
    except urllib.error.HTTPError as error:
        raise RegistrationError(f"Odysseus answered with HTTP {error.code}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise RegistrationError(f"Odysseus does not answer: {type(error).__name__}") from None
    return _registration(body, config.model)


def _registration(body: bytes, model: str) -> Registration:
    try:
        answer = json.loads(body)
    except ValueError:
        raise RegistrationError("Odysseus did not answer with JSON") from None
    if not isinstance(answer, dict) or not answer.get("id"):
        raise RegistrationError("Odysseus did not answer with the id of an endpoint")
    known = [*_listed(answer.get("models")), *_listed(answer.get("pinned_models"))]
    if model not in known:
        raise RegistrationError(f"the endpoint does not offer the selected model {model}")
    return Registration(str(answer["id"]), answer.get("existing") is True)


def _listed(value: object) -> list[object]:
    """The ids in a list of ids or of models; what is no list has none."""
    items = value if isinstance(value, list) else []
    return [item.get("id") if isinstance(item, dict) else item for item in items]


def run(config: Config, post: Post, sleep: Callable[[float], None]) -> None:
    """Registers for ever; returns only by an exception of `sleep` or of the file system."""
    pause = FIRST_PAUSE_S
    told = False
    while True:
        try:
            registration = register(config, post)
        except RegistrationError as error:
            LOG.warning("not registered: %s; next try in %d s", error, pause)
            told = False
            sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
            continue
        config.ready_file.touch(mode=0o600)
        pause = FIRST_PAUSE_S
        if not told:
            done = "reconciled" if registration.existing else "registered"
            LOG.info("%s model %s as endpoint %s", done, config.model, registration.endpoint)
            told = True
        sleep(config.interval)


def send(request: urllib.request.Request, timeout: float) -> bytes:
    """Over HTTP, past any proxy of the environment: Odysseus is in the same Pod."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=timeout) as response:
        body: bytes = response.read(LARGEST_ANSWER)
        return body


def main() -> None:
    """What the container runs."""
    logging.basicConfig(level="INFO", format="%(levelname)s %(message)s")
    try:
        config = Config.from_env(os.environ)
    except ConfigError as error:
        raise SystemExit(f"model-bootstrap: {error}") from None
    # The file of a container before this one says nothing of this one.
    config.ready_file.unlink(missing_ok=True)
    run(config, send, time.sleep)


def _url(environ: Mapping[str, str], name: str, default: str) -> str:
    value = environ.get(name, "").strip() or default
    try:
        parts = urllib.parse.urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{name} must be an http or https URL with a host")
    return value.rstrip("/")


def _seconds(environ: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    value = environ.get(name, "").strip() or str(default)
    if not (value.isascii() and value.isdecimal() and least <= int(value) <= most):
        raise ConfigError(f"{name} must be a whole number of seconds from {least} to {most}")
    return int(value)


if __name__ == "__main__":
    main()
