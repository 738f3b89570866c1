"""What the objects of an observability are called (spec: palena §7, §10)."""

from dataclasses import dataclass
from typing import Final

LANGFUSE: Final = "langfuse"
WEB_PORT: Final = 3000
DATABASE_URL: Final = "database_url"
"""The key of the Secret that Langfuse takes its database from."""


@dataclass(frozen=True, slots=True)
class Names:
    """Of the objects of one observability. Its own has at most 30 characters, so that none is too long."""

    observability: str

    @property
    def langfuse(self) -> str:
        """The LangfuseInstance; beside the gateway its Database and DatabaseRole."""
        return f"{self.observability}-{LANGFUSE}"

    @property
    def web(self) -> str:
        """The Service that Langfuse's operator makes."""
        return f"{self.langfuse}-web"

    @property
    def api_keys(self) -> str:
        """The Secret of the project's keys, and its copy beside the gateway."""
        return f"{self.langfuse}-apikeys"

    @property
    def role(self) -> str:
        """The Secret of the database role, beside the gateway."""
        return f"{self.langfuse}-pg"

    @property
    def database(self) -> str:
        """The Secret of the database's address."""
        return f"{self.langfuse}-db"

    @property
    def redis(self) -> str:
        """The Secret of the parts of Redis' address."""
        return f"{self.langfuse}-redis"

    @property
    def to_postgres(self) -> str:
        """The NetworkPolicy that lets Langfuse to the gateway's PostgreSQL."""
        return f"{self.observability}-palena-langfuse-to-postgres"

    @property
    def to_redis(self) -> str:
        """The NetworkPolicy that lets Langfuse to the gateway's Redis."""
        return f"{self.observability}-palena-langfuse-to-redis"
