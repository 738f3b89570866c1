"""A hash of the secret values that Langfuse is started with (fault F19).

Its operator hands Secrets on without watching them, so that another value has to be another instance. The
API keys are not among them: Langfuse takes them once, and another pair would be another project's.
"""

from collections.abc import Iterator

from magicstick.api.kinds import LANGFUSE_INSTANCE
from magicstick.api.palena.observability import PalenaObservabilitySpec
from magicstick.palena.common.children import text
from magicstick.palena.common.hashes import secret_hash
from magicstick.palena.common.secrets import SECRET, values_of
from magicstick.palena.observability.langfuse import REVISION_VARIABLE
from magicstick.palena.observability.named import named_keys
from magicstick.palena.observability.names import DATABASE_URL
from magicstick.palena.observability.observation import ObservabilityObservation
from magicstick.palena.observability.redis import RedisState

Place = tuple[str, str]
"""(Secret, key), beside the observability."""


def revision(o: ObservabilityObservation, spec: PalenaObservabilitySpec, redis: RedisState) -> str:
    """The hash of what is there now; while a value is missing, the one in use; "" before there is one."""
    values = {f"{name}/{key}": _value(o, name, key) for name, key in _places(o, spec)}
    if spec.redis.mode == "shared":
        made = (each.body["data"] for each in redis.wanted)
        values["redis"] = "\n".join(f"{key}={value}" for data in made for key, value in sorted(data.items()))
    return secret_hash(values) if all(values.values()) else _in_use(o)


def _places(o: ObservabilityObservation, spec: PalenaObservabilitySpec) -> Iterator[Place]:
    database, redis = spec.database.external, spec.redis.external
    if spec.database.mode == "shared":
        yield o.names.database, DATABASE_URL
    elif database is not None:
        yield database.secret_ref.name, database.secret_ref.url_key
    if spec.redis.mode == "external" and redis is not None:
        given = redis.secret_ref
        yield from ((given.name, key) for key in (given.host_key, given.port_key, given.password_key))
    yield from named_keys(spec)


def _value(o: ObservabilityObservation, name: str, key: str) -> str:
    return values_of(o.beside(SECRET, name)).get(key, "")


def _in_use(o: ObservabilityObservation) -> str:
    live = o.beside(LANGFUSE_INSTANCE, o.names.langfuse)
    web = live.spec.get("web") if live is not None else None
    variables = web.get("extraEnv") if isinstance(web, dict) else None
    given = variables if isinstance(variables, list | tuple) else ()
    found = (each for each in given if isinstance(each, dict) and each.get("name") == REVISION_VARIABLE)
    return next((text(each, "value") for each in found), "")
