"""The settings of the access guard (spec: companions §2.3, §2.4), some of which the operator has as well."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from magicstick.runtime.options import (
    ADDRESS,
    API_URL,
    LABEL,
    MAX_PORT,
    NAME,
    PROBES,
    Address,
    ApiUrl,
    Label,
    Name,
    ProgramSettings,
    Seconds,
    Text,
    Url,
    derived,
    in_cluster,
    setting,
)
from magicstick.runtime.settings import same

SERVING: Final = "Serving"
IDENTITY: Final = "Identity"
KEYCLOAK: Final = "keycloak"

RealmName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
CacheSeconds = Annotated[float, Field(ge=0, le=5)]


class GuardSettings(ProgramSettings):
    """The settings, immutable."""

    port: Annotated[int, Field(ge=0, le=MAX_PORT)] = setting(
        SERVING, 8080, "The port that the gateway asks at.", allowed=f"0 to {MAX_PORT}; 0 is any free one"
    )
    guard_bind_address: Address = derived(
        SERVING,
        lambda known: f":{known['port']}" if in_cluster() else f"127.0.0.1:{known['port']}",
        "Where questions and /healthz are answered.",
        allowed=ADDRESS,
        shown="127.0.0.1:PORT, in a cluster :PORT",
    )
    appliance_namespace: Label = setting(SERVING, "ai-system", "Where AppInstances live.", allowed=LABEL)

    oidc_userinfo_url: ApiUrl = setting(
        IDENTITY,
        "http://keycloak.identity-system.svc.cluster.local:8080/realms/magicstick/protocol/openid-connect/userinfo",
        "Where a token is shown to tell whether it is still good.",
        allowed=API_URL,
    )
    oidc_expected_issuer: ApiUrl = setting(
        IDENTITY,
        "https://id.magicstick.local/realms/magicstick",
        "The issuer that a token has to name.",
        allowed=API_URL,
    )
    oidc_expected_client_id: Text = setting(
        IDENTITY, "magicstick-human-gateway-local", "The earlier name of the next one.", allowed="a client"
    )
    oidc_expected_client_ids: Text = derived(
        IDENTITY,
        lambda known: known["oidc_expected_client_id"],
        "The clients of which one has to have asked for a token.",
        allowed="clients, several joined by ','",
        shown="OIDC_EXPECTED_CLIENT_ID",
    )
    identity_management_mode: Text = setting(
        IDENTITY,
        KEYCLOAK,
        "Who knows people and groups. Restricted instances open for nobody where it is not keycloak.",
        allowed="keycloak, or the name of anything else",
    )
    keycloak_admin_url: ApiUrl = setting(
        IDENTITY,
        "http://keycloak.identity-system.svc.cluster.local:8080",
        "Where Keycloak is asked about people and groups.",
        allowed=API_URL,
    )
    keycloak_realm: RealmName = setting(
        IDENTITY,
        "magicstick",
        "The realm of the appliance's people.",
        allowed="letters, digits, '.', '_', '-'",
    )
    oidc_jwks_url: ApiUrl = derived(
        IDENTITY,
        lambda known: (
            f"{known['keycloak_admin_url']}/realms/{known['keycloak_realm']}/protocol/openid-connect/certs"
        ),
        "Where the keys are that tokens are signed with.",
        allowed=API_URL,
        shown="the realm's certs below KEYCLOAK_ADMIN_URL",
    )
    keycloak_user_admin_secret_namespace: Label = setting(
        IDENTITY, "identity-system", "Namespace of the Secret for asking Keycloak.", allowed=LABEL
    )
    keycloak_user_admin_secret_name: Name = setting(
        IDENTITY,
        "magicstick-user-admin-client",
        "The Secret for asking Keycloak: keys client-id and client-secret.",
        allowed=NAME,
    )
    guard_directory_cache_seconds: CacheSeconds = setting(
        IDENTITY,
        0.0,
        "How old what Keycloak says of people and groups may be; 0 asks it each time.",
        allowed="seconds from 0 to 5",
    )

    kubeconfig: Path | None = same("kubeconfig")
    kube_context: Text | None = same("kube_context")
    kubernetes_service_url: Url = same("kubernetes_service_url")
    drain_seconds: Seconds = same("drain_seconds")

    metrics_bind_address: Address = derived(
        PROBES,
        lambda _: ":8081" if in_cluster() else "127.0.0.1:8081",
        "Where /metrics is served, without authentication.",
        allowed=ADDRESS,
        shown="127.0.0.1:8081, in a cluster :8081",
    )

    log_format: Literal["auto", "json", "console"] = same("log_format")
    log_level: Literal["debug", "info", "warning", "error"] = same("log_level")

    @property
    def clients(self) -> frozenset[str]:
        """The names in OIDC_EXPECTED_CLIENT_IDS."""
        names = (name.strip() for name in self.oidc_expected_client_ids.split(","))
        return frozenset(name for name in names if name)

    @property
    def has_directory(self) -> bool:
        """Whether there is a Keycloak that can be asked."""
        return self.identity_management_mode == KEYCLOAK

    @property
    def directory_url(self) -> str:
        """What the paths of Keycloak's administration begin with."""
        return f"{self.keycloak_admin_url}/admin/realms/{self.keycloak_realm}"

    @property
    def token_url(self) -> str:
        """Where the guard itself gets its token."""
        return f"{self.keycloak_admin_url}/realms/{self.keycloak_realm}/protocol/openid-connect/token"
